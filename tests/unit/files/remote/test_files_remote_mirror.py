"""The mirror: downloads and uploads, their order, and the state after an interruption."""

import os
import time

import pytest

from t2t.errors import MachineError
from t2t.files.atomic import LockedError
from t2t.files.output import open_output
from t2t.files.paths import local_path
from t2t.files.remote import mirror
from tests.errors import refused
from tests.stores import failing_uploads


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns + 1_000_000))  # two writes within a tick differ


@pytest.fixture
def path(store):
    """The copy here of memory://b/file."""
    return local_path("memory://b/file")


def test_only_what_has_changed_moves(store, path):
    write(path, "one")
    mirror.publish(path)
    mirror.publish(path)
    mirror.fetch(path)
    assert store.moves == [("put", "memory://b/file")]
    assert store.files.cat("/b/file") == b"one"
    path.unlink()
    mirror.fetch(path)
    assert path.read_text() == "one"
    store.files.pipe("/b/file", b"two")
    mirror.fetch(path)
    mirror.fetch(path)
    assert path.read_text() == "two"
    assert store.moves[1:] == [("get", "memory://b/file")] * 2


def test_what_was_changed_here_stays_unless_the_store_has_another(store, path):
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


def test_what_is_deleted_in_the_store_goes_here_and_what_it_never_had_stays(store, path):
    own = path.with_name("own")
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


def test_other_paths_are_left_alone(tmp_path, store):
    inner, store.store = store.store, None  # any request would fail
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
    store.store = inner


def test_the_marker_of_a_folder_is_removed_first_and_written_last(store):
    folder = local_path("memory://b/f")
    for name in ("marker", "a", "sub/b"):
        write(folder / name, name)
    mirror.publish_folder(folder, "marker")
    assert {address for _, address in store.moves[:2]} == {"memory://b/f/a", "memory://b/f/sub/b"}
    assert store.moves[2:] == [("put", "memory://b/f/marker")]
    store.moves.clear()
    (folder / "a").unlink()
    write(folder / "marker", "another")
    write(folder / "c", "c")
    mirror.publish_folder(folder, "marker")
    assert store.moves == [
        ("remove", "memory://b/f/marker"), ("put", "memory://b/f/c"), ("remove", "memory://b/f/a"),
        ("put", "memory://b/f/marker"),
    ]  # fmt: skip
    store.moves.clear()
    mirror.withdraw(folder, "marker")
    assert store.moves[0] == ("remove", "memory://b/f/marker")
    assert store.names() == []


def test_an_interrupted_attempt_goes_on_after_its_last_batch(store, monkeypatch):
    folder, first = local_path("memory://b/f"), [f"{number:02d}" for number in range(64)]
    for name in (*first, "c", "d"):
        write(folder / name, name)
    with failing_uploads(monkeypatch, "c"), refused(by=MachineError):
        mirror.publish_folder(folder, "d")
    assert store.names() == [f"b/f/{name}" for name in first]
    store.moves.clear()
    mirror.publish_folder(folder, "d")
    assert store.moves == [("put", "memory://b/f/c"), ("put", "memory://b/f/d")]


def test_a_torn_record_counts_as_none(store, tmp_path, path):
    write(path, "one")
    mirror.publish(path)
    (record,) = (tmp_path / "cache/records").rglob("file.json")
    record.write_bytes(record.read_bytes()[:-5])
    store.files.pipe("/b/file", b"two")
    mirror.fetch(path)
    assert path.read_text() == "two"


def test_names_that_lead_elsewhere_are_not_fetched_nor_any_to_a_cache_that_cannot_be_written(store):
    store.files.pipe({"/b/f/good": b"1", "/b/f/../bad": b"2"})
    path = local_path("memory://b/f/good")
    assert mirror.list_files(path.parent) == ["good"]
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("a file where a folder goes")
    with pytest.raises(OSError) as raised:
        mirror.fetch(path)
    assert raised.value.filename == str(path.parent)


def test_one_at_a_time_holds_a_folder(store, tmp_path, monkeypatch):
    lock = local_path("memory://b/run/lock")
    lock.parent.mkdir(parents=True)
    with mirror.exclusive(lock):
        assert store.names() == ["b/run/lock"]
        with refused(os.getpid(), by=LockedError), mirror.exclusive(lock):
            pass
        monkeypatch.setenv("T2T_CACHE", str(tmp_path / "other machine"))
        elsewhere = local_path("memory://b/run/lock")
        elsewhere.parent.mkdir(parents=True)
        with refused(os.getpid(), by=LockedError), mirror.exclusive(elsewhere):
            pass
        monkeypatch.setenv("T2T_CACHE", str(tmp_path / "cache"))
    assert store.names() == []
    assert any("memory://b/run/lock" in note.get("note", "") for note in store.notes)
    store.failing.add("release")  # an owner that cannot be given up hides no error
    with pytest.raises(KeyboardInterrupt), mirror.exclusive(lock):
        raise KeyboardInterrupt


def test_a_file_that_could_not_be_sent_is_resumed(store):
    path = str(local_path("memory://b/out/decoded"))
    store.failing.add("put")
    with open_output(path, "job") as output:
        output.write(b"one\ntwo\n", 2, {})
        with refused(by=MachineError):
            output.finish()
    store.failing.clear()
    assert store.names() == []
    with open_output(path, "job") as output:
        assert output.lines == 2
        output.finish()
    assert store.files.cat("/b/out/decoded") == b"one\ntwo\n"
    assert [one.name for one in local_path("memory://b/out").iterdir()] == ["decoded"]
