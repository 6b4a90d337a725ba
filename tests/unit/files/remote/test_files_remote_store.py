"""Objects through fsspec: retries and error messages."""

import errno

import pytest

from t2t.errors import MachineError, UserError
from t2t.files.remote import store as store_module
from t2t.files.remote.failures import StoreError, to_error
from t2t.files.remote.store import Store


class NoCredentialsError(Exception):
    """Has the same name as botocore's error."""


@pytest.fixture
def failing(store, monkeypatch):
    """Returns a function that makes the next reads fail with given errors; it returns the list of attempts."""
    monkeypatch.setattr(store_module, "_WAITS_S", (0.001,) * 5)
    left, attempts = [], []
    own = type(store.files).info

    def info(self, path, **kwargs):
        attempts.append(path)
        if left:
            raise left.pop(0)
        return own(self, path, **kwargs)

    monkeypatch.setattr(type(store.files), "info", info)
    store.files.pipe("/b/x", b"12345")
    return lambda *errors: (left.extend(errors), attempts)[1]


def test_passing_failures_are_tried_again(failing):
    attempts = failing(OSError("500"), TimeoutError(), ConnectionError("reset"), RuntimeError("aiohttp"))
    alive = []
    (entry,) = Store(lambda: alive.append(1)).info(["memory://b/x"])
    assert entry["size"] == 5
    assert len(attempts) == 5
    assert len(alive) == 4


@pytest.mark.parametrize(
    ("error", "tried", "message"),
    [
        (OSError("500 failed"), 6, "memory://b/x: the store does not answer (500 failed); run the same command again"),
        (TimeoutError(), 6, "memory://b/x: the store does not answer (TimeoutError: TimeoutError); run the same"),
        (PermissionError("no"), 1, "memory://b/x: the store refuses it (no); get permission there"),
        (
            NoCredentialsError("Unable to locate credentials"), 1,
            "memory://b/x: no credentials for memory:// (Unable to locate credentials); set them as its own tools read",
        ),
        (ValueError("bad name"), 1, "memory://b/x: ValueError: bad name; correct the address"),
    ],
)  # fmt: skip
def test_failures_in_one_line(failing, error, tried, message):
    attempts = failing(*[error] * 20)
    with pytest.raises(StoreError) as raised:
        Store().info(["memory://b/x"])
    assert len(attempts) == tried
    told = to_error(raised.value.kind, str(raised.value), raised.value.address)
    assert type(told) is MachineError
    assert str(told).startswith(message)


def test_attempts_end_in_time(failing, monkeypatch):
    monkeypatch.setattr(store_module, "RETRY_FOR_S", 0.0)
    attempts = failing(*[OSError("500")] * 20)
    with pytest.raises(StoreError):
        Store().info(["memory://b/x"])
    assert len(attempts) == 1


def test_a_package_that_is_missing(monkeypatch):
    def missing(*args, **kwargs):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(store_module.fsspec.core, "url_to_fs", missing)
    with pytest.raises(StoreError) as raised:
        Store().info(["s3://b/x"])
    told = to_error(raised.value.kind, str(raised.value), raised.value.address)
    assert type(told) is UserError
    assert str(told) == "s3://b/x: Install s3fs to access S3; pip install 't2t-keras[s3]'"


def test_no_bucket(store, monkeypatch, tmp_path):
    def put_file(*args, **kwargs):
        raise FileNotFoundError("The specified bucket does not exist")

    monkeypatch.setattr(type(store.files), "put_file", put_file)
    (tmp_path / "x").write_text("1")
    with pytest.raises(StoreError) as raised:
        Store().put([(str(tmp_path / "x"), "memory://nowhere/x")])
    told = to_error(raised.value.kind, str(raised.value), raised.value.address)
    assert type(told) is UserError
    assert str(told) == "memory://nowhere/x: there is no 'nowhere' in that store; make it or correct its name"


def test_a_full_disk_is_not_the_stores_fault(store, monkeypatch, tmp_path):
    def get_file(self, path, target, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device", target)

    monkeypatch.setattr(type(store.files), "get_file", get_file)
    store.files.pipe("/b/x", b"1")
    with pytest.raises(StoreError) as raised:
        Store().get([("memory://b/x", str(tmp_path / "x"))])
    told = to_error(raised.value.kind, str(raised.value), **raised.value.details)
    assert isinstance(told, OSError)
    assert (told.errno, told.strerror) == (errno.ENOSPC, "No space left on device")
    assert not list(tmp_path.glob("*x*"))


def test_what_came_short_is_read_again(store, monkeypatch, tmp_path):
    monkeypatch.setattr(store_module, "_WAITS_S", (0.001,) * 5)
    own, cut = type(store.files).get_file, [3, 0]

    def get_file(self, path, target, **kwargs):
        own(self, path, target, **kwargs)
        if cut:
            with open(target, "r+b") as file:
                file.truncate(cut.pop(0))

    monkeypatch.setattr(type(store.files), "get_file", get_file)
    store.files.pipe("/b/x", b"12345")
    Store().get([("memory://b/x", str(tmp_path / "x"))])
    assert (tmp_path / "x").read_bytes() == b"12345"


def test_another_content_has_another_id(store, tmp_path):
    seen = set()
    for content in (b"1", b"2", b"12"):
        store.files.pipe("/b/x", content)
        (entry,) = Store().info(["memory://b/x"])
        (listed,) = Store().find("memory://b").values()
        assert listed["size"] == entry["size"] == len(content)
        seen.add(entry["id"])
    assert len(seen) == 3
    assert Store().info(["memory://b/y", "memory://b"]) == [None, None]
    assert Store().find("memory://none") == {}
    assert Store().get([("memory://b/y", str(tmp_path / "y"))]) == [None]
    assert not (tmp_path / "y").exists()
