"""The lock of a run directory: only one process trains in it."""

import os
import subprocess
import sys

import pytest

from t2t.checkpoints.run_dir import RunDir, lock_run
from t2t.errors import MachineError
from tests.errors import refused
from tests.unit.checkpoints.test_checkpoints_run_dir import ENCODERS, record


def test_two_processes_do_not_train_in_one_place(tmp_path):
    path = tmp_path / "new" / "run"
    with lock_run(path):
        script = "import sys\nfrom t2t.checkpoints.run_dir import lock_run\nwith lock_run(sys.argv[1]): pass"
        second = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert all(word in second.stderr for word in ("UserError", f"--output_dir={path}", str(os.getpid())))
        RunDir.create(path, record(), ENCODERS)
    with lock_run(path):
        assert RunDir.exists(path)


def test_the_lock_is_free_after_an_error_and_what_is_refused_leaves_no_empty_folders(tmp_path):
    (tmp_path / "there").mkdir()
    for place in ("new/deep/run", "there", "there/run"):
        with pytest.raises(FileNotFoundError), lock_run(tmp_path / place):
            open(tmp_path / "missing").close()  # no error of the lock
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    with lock_run(tmp_path / "new/deep/run"):
        (tmp_path / "new/deep/run/kept").touch()
    assert (tmp_path / "new/deep/run/kept").is_file()


def test_a_place_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file/run"
    with refused(f"--output_dir={path}", by=MachineError), lock_run(path):
        pass
