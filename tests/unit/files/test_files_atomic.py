"""Files that are complete or do not exist."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from t2t.errors import MachineError
from t2t.files.atomic import (
    LockedError,
    append_line,
    exclusive_lock,
    new_folder,
    open_locked,
    os_errors_as_machine_errors,
    write_atomically,
)


class Killed(BaseException):
    """Simulates the death of the process; not an Exception, so that handlers of errors do not catch it."""


@pytest.mark.parametrize("stage", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Killed()])
def test_an_interrupted_write_leaves_the_old_content(tmp_path, monkeypatch, stage, error):
    file = tmp_path / "pointer.json"
    write_atomically(file, b"old")

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, stage, fail)
        with pytest.raises(type(error)):
            write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    write_atomically(file, b"newer")
    assert file.read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["pointer.json"]


def test_content_is_on_the_disk_before_the_name_and_the_name_before_the_return(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: (done.append(name), real(*args))[1])
    write_atomically(tmp_path / "file", b"content")
    assert done == ["fsync", "replace", "fsync"]


def test_appending_cuts_off_a_torn_last_line_and_no_more(tmp_path):
    file = tmp_path / "lines"
    append_line(file, "one")
    append_line(file, "two")
    with file.open("ab") as torn:
        torn.write(b"thr" + b"e" * 10_000)  # longer than one block of the search for the last whole line
    append_line(file, "four")
    assert file.read_text() == "one\ntwo\nfour\n"


def test_appending_to_a_single_torn_line_starts_over(tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"torn")
    append_line(file, "whole")
    assert file.read_text() == "whole\n"


def test_appending_to_a_full_disk_says_so():
    with (
        pytest.raises(MachineError, match=r"cannot log: No space left on device; free some space"),
        os_errors_as_machine_errors("cannot log"),
    ):
        append_line("/dev/full", "line")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space there and run the same command again"),
        (errno.EACCES, "get permission there or choose another folder"),
        (errno.EROFS, "choose a folder on a file system that can be written"),
        (errno.EEXIST, "a file is where a folder is to be; move it away or choose another folder"),
        (errno.ENODEV, "fix that and run the same command again"),
    ],
)
def test_a_fault_of_the_machine_is_one_line_with_a_remedy(number, remedy):
    with pytest.raises(MachineError) as caught, os_errors_as_machine_errors("cannot save X"):
        raise OSError(number, os.strerror(number), "/runs/a")
    assert str(caught.value) == f"cannot save X: {os.strerror(number)} (/runs/a); {remedy}"
    assert caught.value.exit_status == 1


def test_a_lock_is_held_against_others_and_free_again_afterwards(tmp_path):
    file = tmp_path / "lock"
    with exclusive_lock(file), pytest.raises(LockedError, match=rf"^{os.getpid()} on "), exclusive_lock(file):
        pass
    assert not file.exists()
    with exclusive_lock(file):
        pass


def test_a_file_that_its_holder_removed_while_another_waited_to_lock_it_is_not_locked_in_vain(tmp_path, monkeypatch):
    file, lock = tmp_path / "lock", fcntl.flock

    def late(*asked):
        monkeypatch.setattr(fcntl, "flock", lock)
        file.unlink()  # as its holder does when it ends, after this process has opened the file
        lock(*asked)

    monkeypatch.setattr(fcntl, "flock", late)
    with exclusive_lock(file), pytest.raises(LockedError), exclusive_lock(file):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    file = tmp_path / "lock"
    holder = subprocess.Popen(
        [
            sys.executable, "-c",
            "import sys, time\nfrom t2t.files.atomic import exclusive_lock\n"
            "with exclusive_lock(sys.argv[1]):\n    print('held', flush=True)\n    time.sleep(60)",
            str(file),
        ],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LockedError, match=rf"^{holder.pid} on "), exclusive_lock(file):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with exclusive_lock(file):
        pass


def test_children_of_a_killed_process_do_not_hold_its_lock(tmp_path):
    file = tmp_path / "lock"
    holder = subprocess.Popen(
        [
            sys.executable, "-c",
            "import os, sys, time\nfrom t2t.files.atomic import exclusive_lock\n"
            "with exclusive_lock(sys.argv[1]):\n    child = os.fork()\n    if not child:\n"
            "        print(os.getpid(), flush=True)\n    time.sleep(60)",
            str(file),
        ],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    child = int(holder.stdout.readline())
    try:
        with pytest.raises(LockedError, match=rf"^{holder.pid} on "), exclusive_lock(file):
            pass
        holder.kill()
        holder.wait()
        with exclusive_lock(file):
            os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)
        holder.communicate()


def test_two_do_not_make_the_same_folder(tmp_path):
    with new_folder(tmp_path / "folder") as folder:
        (folder / "file").write_text("of the first")
        with pytest.raises(LockedError, match=rf"^{os.getpid()} on "), new_folder(tmp_path / "folder"):
            pass
    assert (tmp_path / "folder/file").read_text() == "of the first"
    assert os.listdir(tmp_path) == ["folder"]


def test_a_new_folder_has_its_name_once_it_is_whole(tmp_path):
    target = tmp_path / "deep" / "folder"
    with new_folder(target) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("content")
        assert not target.exists()
    assert (target / "inner" / "file").read_text() == "content"
    assert os.listdir(target.parent) == ["folder"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Killed()])
def test_a_new_folder_that_fails_leaves_nothing(tmp_path, error):
    (tmp_path / ".tmp-folder").mkdir()
    (tmp_path / ".tmp-folder" / "left over").write_text("by a crash")

    def fill():
        with new_folder(tmp_path / "folder") as folder:
            assert list(folder.iterdir()) == []
            (folder / "file").write_text("half")
            raise error

    with pytest.raises(type(error)):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_that_fails_leaves_none_above_it(tmp_path):
    with pytest.raises(ValueError, match="boom"), new_folder(tmp_path / "served/mine/1"):
        raise ValueError("boom")
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "served/mine/1") as folder:
        (folder / "file").touch()
    assert (tmp_path / "served/mine/1/file").is_file()


# === Several writers ===


@pytest.mark.parametrize("stage", ["fsync", "replace"])
def test_a_second_writer_of_the_same_file_disturbs_no_first(tmp_path, monkeypatch, stage):
    file, real, contents = tmp_path / "page.html", getattr(os, stage), []

    def second(*args):
        monkeypatch.setattr(os, stage, real)
        write_atomically(file, b"of the second")
        contents.append(file.read_bytes())
        return real(*args)

    monkeypatch.setattr(os, stage, second)
    write_atomically(file, b"of the first")
    assert contents == [b"of the second"]
    assert file.read_bytes() == b"of the first", "the last to finish"
    assert os.listdir(tmp_path) == ["page.html"]


def test_many_writers_of_the_same_file_leave_one_whole_content(tmp_path):
    file = tmp_path / "pointer.json"
    contents = [bytes([number]) * 5000 for number in range(8)]
    write_atomically(file, contents[0])
    found, gate = [], threading.Barrier(9, timeout=600)

    def write(content):
        gate.wait()
        for _ in range(20):
            write_atomically(file, content)

    def read():
        gate.wait()
        found.extend(file.read_bytes() for _ in range(200))

    with ThreadPoolExecutor(9) as pool:
        for future in [*(pool.submit(write, content) for content in contents), pool.submit(read)]:
            future.result()
    assert {*found, file.read_bytes()} <= set(contents)
    assert os.listdir(tmp_path) == ["pointer.json"]


def test_what_a_killed_writer_left_is_removed_and_what_another_writes_is_not(tmp_path):
    held, left = tmp_path / ".tmp-file", tmp_path / ".tmp-file.2"
    held.write_bytes(b"of anoth")
    left.write_bytes(b"half")
    with open_locked(held):
        write_atomically(tmp_path / "file", b"whole")
        assert held.read_bytes() == b"of anoth"
    assert sorted(os.listdir(tmp_path)) == [".tmp-file", "file"]
    write_atomically(tmp_path / "file", b"whole")
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_is_written_where_the_file_system_has_no_locks(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    write_atomically(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["file"]
