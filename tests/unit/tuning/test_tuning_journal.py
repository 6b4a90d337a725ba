"""The journal of a study after crashes and full disks."""

import pytest

from t2t.errors import MachineError
from t2t.files.atomic import open_locked
from t2t.tuning.journal import JournalLock, open_journal
from tests.errors import refused
from tests.waiting import join_all, start_thread


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.journal"


def names(path):
    return [study.study_name for study in open_journal(path).get_all_studies()]


def test_an_incomplete_last_line_is_cut_off_before_the_next(path):
    open_journal(path).create_new_study([1], "one")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    assert names(path) == ["one"]
    open_journal(path).create_new_study([1], "two")
    assert path.read_bytes().startswith(whole)
    assert names(path) == ["one", "two"]


def test_the_lock_of_a_killed_process_of_an_earlier_version_locks_nothing(path):
    path.with_name("study.journal.lock").symlink_to(path)
    open_journal(path).create_new_study([1], "one")
    assert names(path) == ["one"]


def test_a_writer_waits_for_another(path):
    order, other, lock = [], open_locked(path), JournalLock(path)

    def write():
        assert lock.acquire()
        order.append("second")
        lock.release()

    writer = start_thread(write)
    order.append("first")
    other.close()
    join_all(writer)
    assert order == ["first", "second"]
    open_locked(path).close()


def test_a_journal_that_cannot_be_written_is_one_line(path, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    journal = open_journal(path)
    with monkeypatch.context() as patch:
        patch.setattr("t2t.tuning.journal.cut_torn_line", full)
        with refused(path, by=MachineError):
            journal.create_new_study([1], "one")
    journal.create_new_study([1], "one")
    assert names(path) == ["one"]
