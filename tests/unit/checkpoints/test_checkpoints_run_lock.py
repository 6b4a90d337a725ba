"""The lock of a run directory: only one process trains in it."""

import os
import subprocess
import sys

import pytest

from t2t.checkpoints.run_dir import RunDir, lock_run
from t2t.errors import MachineError
from tests.unit.checkpoints.test_checkpoints_run_dir import ENCODERS, record


def test_two_processes_do_not_train_in_one_place(tmp_path):
    path = tmp_path / "new" / "run"
    with lock_run(path):
        script = "import sys\nfrom t2t.checkpoints.run_dir import lock_run\nwith lock_run(sys.argv[1]): pass"
        second = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert f"UserError: --output_dir={path}: process {os.getpid()} on " in second.stderr
        assert "is training there; wait for it, stop it or use another --output_dir" in second.stderr
        RunDir.create(path, record(), ENCODERS)
    with lock_run(path):
        assert RunDir.exists(path)


def test_the_lock_is_free_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="boom"), lock_run(tmp_path):
        raise ValueError("boom")
    with lock_run(tmp_path):
        pass


def test_what_is_refused_leaves_no_empty_folders(tmp_path):
    (tmp_path / "there").mkdir()
    for place in ("new/deep/run", "there", "there/run"):
        with pytest.raises(ValueError, match="boom"), lock_run(tmp_path / place):
            raise ValueError("boom")
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_what_has_begun_stays(tmp_path):
    with lock_run(tmp_path / "new/run"):
        (tmp_path / "new/run/kept").touch()
    assert (tmp_path / "new/run/kept").is_file()


def test_errors_while_training_are_not_the_locks(tmp_path):
    with pytest.raises(FileNotFoundError), lock_run(tmp_path):
        open(tmp_path / "missing").close()


def test_a_place_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(
            MachineError, match=r"cannot lock --output_dir=.*: Not a directory .*; a part of that path is a file"
        ),
        lock_run(tmp_path / "file" / "run"),
    ):
        pass
