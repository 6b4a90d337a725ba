"""The mirror: downloads and uploads, their order, and the state after an interruption."""

import os
import time

import pytest

from t2t.errors import MachineError
from t2t.files.atomic import LockedError
from t2t.files.paths import local_path
from t2t.files.remote import mirror
from t2t.files.remote.store import Store


@pytest.fixture
def moved(monkeypatch):
    """A list of the requests to the store in order: (operation, address)."""
    calls = []
    for name in ("_put", "_remove", "_get"):
        own = getattr(Store, name)

        def call(self, *args, name=name, own=own):
            address = next(one for one in args if "://" in str(one))
            calls.append((name.strip("_"), address))
            return own(self, *args)

        monkeypatch.setattr(Store, name, call)
    return calls


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns + 1_000_000))  # two writes within a tick differ


def test_a_file_goes_to_the_store_and_back(store):
    path = local_path("memory://b/a/file")
    write(path, "one")
    mirror.publish(path)
    assert store.files.cat("/b/a/file") == b"one"
    path.unlink()
    mirror.fetch(path)
    assert path.read_text() == "one"


def test_only_what_has_changed_moves(store, moved):
    path = local_path("memory://b/file")
    write(path, "one")
    mirror.publish(path)
    mirror.publish(path)
    mirror.fetch(path)
    assert moved == [("put", "memory://b/file")]
    store.files.pipe("/b/file", b"two")
    mirror.fetch(path)
    mirror.fetch(path)
    assert path.read_text() == "two"
    assert moved[1:] == [("get", "memory://b/file")]


def test_what_was_changed_here_stays_unless_the_store_has_another(store):
    path = local_path("memory://b/file")
    write(path, "one")
    mirror.publish(path)
    write(path, "one, and more")
    mirror.fetch(path)
    assert path.read_text() == "one, and more"
    mirror.publish(path)
    assert store.files.cat("/b/file") == b"one, and more"
    write(path, "mine")
    store.files.pipe("/b/file", b"of another machine")
    mirror.fetch(path)
    assert path.read_text() == "of another machine"


def test_what_is_deleted_in_the_store_goes_here_and_what_it_never_had_stays(store):
    path, own = local_path("memory://b/file"), local_path("memory://b/own")
    write(path, "one")
    write(own, "mine")
    mirror.publish(path)
    store.files.rm("/b/file")
    mirror.fetch(path, own)
    assert not path.exists()
    assert own.read_text() == "mine"
    write(path, "one")
    mirror.publish(path)
    store.files.rm("/b/file")
    mirror.publish(path)  # the record does not prove that the object still exists
    assert store.names() == ["b/file"]


def test_other_paths_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("t2t.files.remote.client._send", None)  # any request would fail
    path = tmp_path / "file"
    mirror.fetch(path)
    assert not mirror.exists(path)
    path.write_text("one")
    mirror.publish(path)
    mirror.publish_folder(tmp_path, "file")
    mirror.withdraw(tmp_path, "file")
    mirror.forget_folder(tmp_path)
    mirror.remove_folder(tmp_path / "none")
    with mirror.exclusive(tmp_path / "lock"):
        pass
    assert mirror.exists(path)
    assert mirror.names_in(tmp_path) == {"file"}
    assert mirror.names_in(tmp_path / "none") == set()
    assert mirror.list_files(tmp_path) == []


def test_the_marker_of_a_folder_is_removed_first_and_written_last(store, moved):
    folder = local_path("memory://b/f")
    for name in ("marker", "a", "sub/b"):
        write(folder / name, name)
    mirror.publish_folder(folder, "marker")
    assert {address for _, address in moved[:2]} == {"memory://b/f/a", "memory://b/f/sub/b"}
    assert moved[2:] == [("put", "memory://b/f/marker")]
    moved.clear()
    (folder / "a").unlink()
    write(folder / "marker", "another")
    write(folder / "c", "c")
    mirror.publish_folder(folder, "marker")
    assert moved == [
        ("remove", "memory://b/f/marker"), ("put", "memory://b/f/c"), ("remove", "memory://b/f/a"),
        ("put", "memory://b/f/marker"),
    ]  # fmt: skip
    moved.clear()
    mirror.withdraw(folder, "marker")
    assert moved[0] == ("remove", "memory://b/f/marker")
    assert store.names() == []


def test_an_interrupted_attempt_goes_on(store, moved, monkeypatch):
    monkeypatch.setattr(mirror, "_BATCH", 1)
    folder = local_path("memory://b/f")
    for name in "abcd":
        write(folder / name, name)
    whole = Store._put

    def put(self, file, address):
        if address.endswith("/c"):
            raise OSError("the machine fails")
        return whole(self, file, address)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_put", put)
        with pytest.raises(MachineError):
            mirror.publish_folder(folder, "d")
    assert store.names() == ["b/f/a", "b/f/b"]
    moved.clear()
    mirror.publish_folder(folder, "d")
    assert moved == [("put", "memory://b/f/c"), ("put", "memory://b/f/d")]


def test_a_torn_record_counts_as_none(store, tmp_path):
    path = local_path("memory://b/file")
    write(path, "one")
    mirror.publish(path)
    (record,) = (tmp_path / "cache/records").rglob("file.json")
    record.write_bytes(record.read_bytes()[:-5])
    store.files.pipe("/b/file", b"two")
    mirror.fetch(path)
    assert path.read_text() == "two"


def test_names_that_lead_elsewhere_are_not_fetched(store):
    store.files.pipe({"/b/f/good": b"1", "/b/f/../bad": b"2"})
    assert mirror.list_files(local_path("memory://b/f")) == ["good"]


def test_a_cache_that_cannot_be_written(store, tmp_path):
    store.files.pipe("/b/f/x", b"1")
    path = local_path("memory://b/f/x")
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("a file where a folder goes")
    with pytest.raises(OSError) as raised:
        mirror.fetch(path)
    assert raised.value.filename == str(path.parent)


def test_an_owner_that_cannot_be_given_up_hides_no_error(store, monkeypatch):
    lock = local_path("memory://b/run/lock")
    lock.parent.mkdir(parents=True)
    monkeypatch.setattr("t2t.files.remote.store._WAITS_S", ())  # no retries

    def gone(self, address):
        raise OSError("the store is gone")

    def interrupted():
        with mirror.exclusive(lock):
            monkeypatch.setattr(type(store.files), "cat_file", gone)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_one_at_a_time_holds_a_folder(store, tmp_path, monkeypatch):
    lock = local_path("memory://b/run/lock")
    lock.parent.mkdir(parents=True)
    with mirror.exclusive(lock):
        assert store.names() == ["b/run/lock"]
        with pytest.raises(LockedError, match=rf"^{os.getpid()} on "), mirror.exclusive(lock):
            pass
        monkeypatch.setenv("T2T_CACHE", str(tmp_path / "other machine"))
        elsewhere = local_path("memory://b/run/lock")
        elsewhere.parent.mkdir(parents=True)
        with pytest.raises(LockedError, match=rf"^{os.getpid()} on "), mirror.exclusive(elsewhere):
            pass
        monkeypatch.setenv("T2T_CACHE", str(tmp_path / "cache"))
    assert store.names() == []
    assert any("is at work; watching it for 30 s" in note.get("note", "") for note in store.notes)
