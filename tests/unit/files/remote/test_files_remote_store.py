"""Objects through fsspec: retries and error messages."""

import errno

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from t2t.errors import MachineError, UserError
from t2t.files.remote.failures import StoreError, to_error
from t2t.files.remote.store import Store


class NoCredentialsError(Exception):
    """Has the same name as botocore's error."""


class FlakyFileSystem(MemoryFileSystem):
    """Objects in memory, whose next operations fail with given errors; after a download, a file may be cut."""

    protocol = "flaky"
    store, errors, cuts, attempts = {}, [], [], 0

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("flaky://", "memory://"))

    def info(self, path, **kwargs):
        type(self).attempts += 1
        self.fail()
        return super().info(path, **kwargs)

    def put_file(self, *args, **kwargs):
        self.fail()
        return super().put_file(*args, **kwargs)

    def get_file(self, path, target, **kwargs):
        super().get_file(path, target, **kwargs)
        if self.cuts:
            with open(target, "r+b") as file:
                file.truncate(self.cuts.pop(0))

    def fail(self):
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture
def flaky():
    fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)
    FlakyFileSystem.store = {}
    FlakyFileSystem.errors, FlakyFileSystem.cuts, FlakyFileSystem.attempts = [], [], 0
    fsspec.filesystem("flaky").pipe("/b/x", b"12345")
    return FlakyFileSystem


def quick(alive=lambda: None, **limits):
    return Store(alive, waits_s=(0.001,) * 5, **limits)


def test_passing_failures_are_tried_again(flaky):
    flaky.errors += [OSError("500"), TimeoutError(), ConnectionError("reset"), RuntimeError("aiohttp")]
    alive = []
    (entry,) = quick(lambda: alive.append(1)).info(["flaky://b/x"])
    assert (entry["size"], flaky.attempts, len(alive)) == (5, 5, 4)
    flaky.errors += [OSError("500")] * 20
    with pytest.raises(StoreError):
        quick(retry_for_s=0.0).info(["flaky://b/x"])
    assert flaky.attempts == 6, "attempts end in time"


@pytest.mark.parametrize(("error", "tried", "about"), [
    (OSError("500"), 6, "500"), (TimeoutError(), 6, "TimeoutError"), (PermissionError("no"), 1, "no"),
    (NoCredentialsError("none"), 1, "flaky://"), (ValueError("bad-name"), 1, "bad-name"),
])  # fmt: skip
def test_failures_in_one_line(flaky, error, tried, about):
    flaky.errors += [error] * 20
    with pytest.raises(StoreError) as raised:
        quick().info(["flaky://b/x"])
    assert flaky.attempts == tried
    told = to_error(raised.value.kind, str(raised.value), raised.value.address)
    assert type(told) is MachineError
    assert str(told).startswith("flaky://b/x: ")
    assert about in str(told).removeprefix("flaky://b/x: ")


@pytest.mark.parametrize(("error", "address", "about"), [
    (ImportError("Install s3fs to access S3"), "s3://b/x", "s3fs 't2t-keras[s3]'"),
    (FileNotFoundError("The specified bucket does not exist"), "flaky://nowhere/x", "'nowhere'"),
])  # fmt: skip
def test_a_package_or_bucket_that_is_missing(flaky, tmp_path, error, address, about):
    (tmp_path / "x").write_text("1")
    flaky.errors.append(error)
    with pytest.raises(StoreError) as raised:
        quick().put([(str(tmp_path / "x"), "flaky://nowhere/x")])
    told = to_error(raised.value.kind, str(raised.value), address)
    assert type(told) is UserError
    assert all(word in str(told) for word in (address, *about.split()))


def test_what_came_short_is_read_again_and_a_full_disk_is_not_the_stores_fault(flaky, tmp_path):
    flaky.errors.append(OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "x")))
    with pytest.raises(StoreError) as raised:
        quick().get([("flaky://b/x", str(tmp_path / "x"))])
    told = to_error(raised.value.kind, str(raised.value), **raised.value.details)
    assert isinstance(told, OSError)
    assert (told.errno, told.strerror) == (errno.ENOSPC, "No space left on device")
    assert not list(tmp_path.glob("*x*"))
    flaky.cuts += [3, 0]
    quick().get([("flaky://b/x", str(tmp_path / "x"))])
    assert (tmp_path / "x").read_bytes() == b"12345"
    assert not flaky.cuts


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
