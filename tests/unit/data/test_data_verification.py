"""Data files are compared with their checksums once, and again only after they were changed."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from t2t.data import manifest
from t2t.data.manifest import SIDE_FILE, read_manifest, verify_files
from t2t.files import trust
from t2t.files.trust import read_sealed
from t2t.runs.config import RunConfig
from t2t.runs.data import open_data
from tests.errors import refused
from tests.sealed_files import edited

FILE = "train-00001-of-00004.inputs.values.npy"


@pytest.fixture
def settled_after(monkeypatch):
    """Returns a function that sets the age in nanoseconds at which files count as settled."""
    return lambda age: monkeypatch.setattr(trust, "_SETTLED_NS", age)


@pytest.fixture
def folder(digits_folder, tmp_path, settled_after):
    """A copy of the data whose files count as settled immediately, so that tests need not wait."""
    settled_after(-(10**18))
    return shutil.copytree(digits_folder, tmp_path / "digits")


@pytest.fixture
def hashed(monkeypatch):
    """A list that collects the names of files that are hashed."""
    names, sha256_of = [], manifest.sha256_of
    monkeypatch.setattr(manifest, "sha256_of", lambda path: names.append(path.name) or sha256_of(path))
    return names


def verify(folder, split="train"):
    verify_files(folder, read_manifest(folder).split(split).files())


def test_whole_files_are_read_through_once(folder, hashed):
    verify(folder)
    assert len(hashed) == 16  # four shards of two features, values and offsets
    hashed.clear()
    verify(folder)
    assert hashed == []
    verify(folder, "dev")
    assert len(hashed) == 4
    verify(folder)
    assert len(hashed) == 4
    assert len(read_sealed(folder / SIDE_FILE)) == 20
    content = (folder / FILE).read_bytes()
    (folder / FILE).unlink()
    (folder / FILE).write_bytes(content)
    hashed.clear()
    for _ in range(2):  # a file that is put back is compared and remembered again
        verify(folder)
        assert hashed == [FILE]


def rewrite(path, keep_times=False):
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    if keep_times:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def exchange(path):
    other = Path(shutil.copy2(path, path.with_name("other")))
    rewrite(other, keep_times=True)
    other.replace(path)


@pytest.mark.parametrize("change", [rewrite, partial(rewrite, keep_times=True), exchange], ids=range(3))
def test_a_changed_file_is_noticed(folder, change):
    verify(folder)
    marks = trust.file_marks(folder / FILE)
    change(folder / FILE)
    while trust.file_marks(folder / FILE) == marks:  # until the file system's clock has advanced
        (folder / FILE).chmod(0o644)
    assert marks[0] == (folder / FILE).stat().st_size
    with refused(FILE):
        verify(folder)
    assert FILE in read_sealed(folder / SIDE_FILE)  # the old entry, which is no longer valid


def test_a_side_file_from_elsewhere_tells_nothing(folder, hashed, tmp_path):
    """It is not used for a copy, even one with the same times, nor for other checksums."""
    verify(folder)
    copy = shutil.copytree(folder, tmp_path / "copy")  # with modification times
    hashed.clear()
    verify(copy)
    assert len(hashed) == 16
    with edited(copy / "manifest.json") as plain:
        plain["splits"]["train"]["shards"][1]["values"]["inputs"]["sha256"] = "0" * 64
    with refused(FILE):
        verify(copy)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"seal": "x"}', b'{"a": 3}', None])
def test_a_damaged_or_changed_side_file_tells_nothing_and_is_replaced(folder, hashed, content):
    if content is None:
        verify(folder)
        plain = json.loads((folder / SIDE_FILE).read_text())
        plain[FILE][1] += 1
        content = json.dumps(plain).encode()
    (folder / SIDE_FILE).write_bytes(content)
    hashed.clear()
    verify(folder)
    assert len(hashed) == 16
    assert FILE in read_sealed(folder / SIDE_FILE)


def test_a_side_file_that_cannot_be_written_and_files_that_were_just_written_are_compared_each_time(
    folder, hashed, settled_after
):
    """A change within the same step of the file system's clock would give a file the same times."""
    (folder / SIDE_FILE / "folder").mkdir(parents=True)
    verify(folder)
    verify(folder)
    assert len(hashed) == 32
    shutil.rmtree(folder / SIDE_FILE)
    settled_after(10**18)
    verify(folder)
    verify(folder)
    assert len(hashed) == 64
    assert not (folder / SIDE_FILE).exists()


def test_only_splits_that_are_read_are_opened_and_compared(folder, hashed, digits_class):
    request = RunConfig(problem="digits", data_dir=str(folder.parent))
    data = open_data(request, digits_class(), splits=("dev", "test"))
    assert list(data.readers) == ["dev"]
    assert {name.partition("-")[0] for name in hashed} == {"dev"}
    (folder / FILE).unlink()
    assert len(open_data(request, digits_class(), splits=("dev",)).readers["dev"]) == 30
    with refused(FILE):
        open_data(request, digits_class())
