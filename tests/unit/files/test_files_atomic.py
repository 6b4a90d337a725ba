"""Files that are complete or do not exist."""

import errno
import fcntl
import os
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
from tests.errors import refused
from tests.waiting import LIMIT_S, is_alive


class Killed(BaseException):
    """Simulates the death of the process; not an Exception, so that handlers of errors do not catch it."""


ERRORS = pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Killed()])


@pytest.fixture
def before_call(monkeypatch):
    """Returns a function that has another called before a system call, `times` times; exceptions replace the call."""

    def intercept(module, name, act, times=1):
        real, left = getattr(module, name), [times]

        def intercepted(*args):
            left[0] -= 1
            if left[0] >= 0:
                act()
            return real(*args)

        monkeypatch.setattr(module, name, intercepted)

    return intercept


def fail_with(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize("stage", ["fsync", "replace"])
@ERRORS
def test_an_interrupted_write_leaves_the_old_content(tmp_path, before_call, stage, error):
    file = tmp_path / "pointer.json"
    write_atomically(file, b"old")
    before_call(os, stage, fail_with(error))
    with pytest.raises(type(error)):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    write_atomically(file, b"newer")
    assert file.read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["pointer.json"]


def test_content_is_on_the_disk_before_the_name_and_the_name_before_the_return(tmp_path, before_call):
    done = []
    for name in ("fsync", "replace"):
        before_call(os, name, lambda name=name: done.append(name), times=9)
    write_atomically(tmp_path / "file", b"content")
    assert done == ["fsync", "replace", "fsync"]


@pytest.mark.parametrize(("lines", "torn"), [
    (["one", "two"], b"thr" + b"e" * 10_000), ([], b"torn"),
], ids=["longer than one block of the search for the last complete line", "the only line"])  # fmt: skip
def test_appending_cuts_off_a_torn_last_line_and_no_more(tmp_path, lines, torn):
    file = tmp_path / "lines"
    for line in lines:
        append_line(file, line)
    with file.open("ab") as appended:
        appended.write(torn)
    append_line(file, "four")
    assert file.read_text() == "".join(f"{line}\n" for line in [*lines, "four"])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EEXIST, errno.ENODEV])
def test_a_fault_of_the_machine_names_what_failed_and_where(number):
    with refused("step-7", "/runs/a", by=MachineError) as caught, os_errors_as_machine_errors("cannot save step-7"):
        raise OSError(number, os.strerror(number), "/runs/a")
    assert os.strerror(number) in str(caught.value)
    assert caught.value.exit_status == 1
    with refused("progress.log", by=MachineError), os_errors_as_machine_errors("cannot write progress.log"):
        append_line("/dev/full", "line")


# === Locks ===
def check_held(file, by):
    """Checks that a process holds a lock file."""
    with refused(f"{by}", by=LockedError) as caught, exclusive_lock(file):
        pass
    assert str(caught.value).startswith(f"{by} on ")


def test_a_lock_is_held_against_others_and_free_again_afterwards(tmp_path, before_call):
    file = tmp_path / "lock"
    with exclusive_lock(file):
        check_held(file, os.getpid())
    assert not file.exists()
    with exclusive_lock(file):
        pass
    # Its holder removes the file, as it does when it ends, while another waits to lock it, which is not in vain.
    file = tmp_path / "lock"
    before_call(fcntl, "flock", file.unlink)  # as its holder does when it ends, after this process has opened the file
    with exclusive_lock(file):
        check_held(file, os.getpid())


HOLDER = """
import os, sys, time
from t2t.files.atomic import exclusive_lock
with exclusive_lock(sys.argv[1]):
    child = os.fork()
    if not child:
        print(os.getpid(), flush=True)
    time.sleep(3600)
"""


def test_the_lock_of_a_killed_process_is_free_and_its_children_do_not_hold_it(tmp_path):
    file = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(file)], stdout=subprocess.PIPE)
    child = int(holder.stdout.readline())
    try:
        check_held(file, holder.pid)
        holder.kill()
        holder.wait()
        with exclusive_lock(file):
            assert is_alive(child)
    finally:
        os.kill(child, 9)
        holder.kill()
        holder.communicate()


# === Folders ===
def test_a_new_folder_has_its_name_once_it_is_complete_and_two_do_not_make_it_at_once(tmp_path):
    target = tmp_path / "deep" / "folder"
    with new_folder(target) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("of the first")
        assert not target.exists()
        with refused(os.getpid(), by=LockedError), new_folder(target):
            pass
    assert (target / "inner" / "file").read_text() == "of the first"
    assert os.listdir(target.parent) == ["folder"]


@ERRORS
def test_a_new_folder_that_fails_leaves_nothing_nor_a_folder_above_it(tmp_path, error):
    (tmp_path / "above").mkdir()
    (tmp_path / "above/.tmp-folder").mkdir()
    (tmp_path / "above/.tmp-folder/left over").write_text("by a crash")

    def fill(target):
        with new_folder(target) as folder:
            assert list(folder.iterdir()) == []
            (folder / "file").write_text("half")
            raise error

    for target in ("above/folder", "served/mine/1"):
        with pytest.raises(type(error)):
            fill(tmp_path / target)
    assert list(tmp_path.rglob("*")) == [tmp_path / "above"]


# === Several writers ===
@pytest.mark.parametrize("stage", ["fsync", "replace"])
def test_a_second_writer_of_the_same_file_disturbs_no_first(tmp_path, before_call, stage):
    file, contents = tmp_path / "page.html", []

    def second():
        write_atomically(file, b"of the second")
        contents.append(file.read_bytes())

    before_call(os, stage, second)
    write_atomically(file, b"of the first")
    assert contents == [b"of the second"]
    assert file.read_bytes() == b"of the first", "the last to finish"
    assert os.listdir(tmp_path) == ["page.html"]


def test_many_writers_of_the_same_file_leave_one_complete_content(tmp_path):
    file = tmp_path / "pointer.json"
    contents = [bytes([number]) * 5000 for number in range(8)]
    write_atomically(file, contents[0])
    found, gate = [], threading.Barrier(9, timeout=LIMIT_S)

    def write(content):
        gate.wait()
        for _ in range(10):
            write_atomically(file, content)

    def read():
        gate.wait()
        found.extend(file.read_bytes() for _ in range(200))

    with ThreadPoolExecutor(9) as pool:
        for future in [*(pool.submit(write, content) for content in contents), pool.submit(read)]:
            future.result()
    assert {*found, file.read_bytes()} <= set(contents)
    assert os.listdir(tmp_path) == ["pointer.json"]


def test_a_file_is_written_where_the_file_system_has_no_locks(tmp_path, before_call):
    before_call(fcntl, "flock", fail_with(OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))), times=9)
    write_atomically(tmp_path / "file", b"whole")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"whole"]


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
