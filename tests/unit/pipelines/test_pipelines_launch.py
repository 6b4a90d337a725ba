import dataclasses
import os
import signal
import subprocess
import sys

import pytest

from t2t.errors import MachineError, UserError
from t2t.pipelines.launch import run_task
from tests.errors import refused
from tests.readme import ROOT
from tests.tasks import Touch
from tests.waiting import is_alive, wait_until

HERE = "--runner=DirectRunner"
PROCESSES = "--direct_num_workers=2 --direct_running_mode=multi_processing"


def test_a_task_is_done_by_a_process_of_its_own(tmp_path, caplog, capfd):
    task = Touch(tmp_path, count=2, failing=1)
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures/000000000.json").write_text("what an earlier pipeline has left")
    with caplog.at_level("INFO", logger="t2t"):
        run_task(task, HERE, "work")
    assert int((tmp_path / "pid").read_text()) != os.getpid()
    assert all(map(task.is_done, range(2)))
    assert caplog.messages == ["counters of Apache Beam: 2 elements, 10 times 0, 10 times 1"]
    assert not (tmp_path / "failures").exists()
    assert capfd.readouterr().err == "", "how workers start is nobody's business"


@dataclasses.dataclass(frozen=True)
class Ending(Touch):
    """Ends the process that receives it, as `end` says: a function and its arguments."""

    end: tuple = ()

    def __reduce__(self):
        return self.end


@pytest.mark.parametrize(
    ("end", "about"), [((os._exit, (3,)), ["Beam", "3,"]), ((signal.raise_signal, (signal.SIGKILL,)), ["memory;"])]
)
def test_the_end_of_the_process_of_a_pipeline_is_named(tmp_path, end, about):
    with refused(*about, by=MachineError):
        run_task(Ending(tmp_path, end=end), HERE, "work")


@pytest.mark.slow
@pytest.mark.parametrize("error", [UserError, MachineError])
def test_the_error_of_a_worker_is_raised_as_it_was(tmp_path, capfd, error):
    with refused("element", 3, by=error):
        run_task(Touch(tmp_path, error=error, failing=3), PROCESSES, "work")
    assert capfd.readouterr().err == ""
    assert not (tmp_path / "failures").exists()


@pytest.mark.slow
def test_an_error_of_the_program_keeps_its_traceback(tmp_path, capfd):
    with refused("Beam", 1, by=MachineError):
        run_task(Touch(tmp_path, error=ZeroDivisionError, failing=3), PROCESSES, "work")
    printed = capfd.readouterr().err
    assert "ZeroDivisionError: element 3 is wrong" in printed
    assert "tests/tasks.py" in printed


@pytest.mark.slow
def test_the_death_of_a_worker_ends_the_pipeline(tmp_path):
    with refused("memory;", by=MachineError):
        run_task(Touch(tmp_path, dies=True, failing=3), PROCESSES, "work")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_command(tmp_path, number):
    code = (
        "import pathlib, signal, sys; from t2t.pipelines.launch import run_task; from tests.tasks import Touch; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # ignored where the tests run in the background
        f"run_task(Touch(pathlib.Path(sys.argv[1]), failing=3, seconds=600), {PROCESSES!r}, 'work')"
    )
    command = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "a worker is at work")
    command.send_signal(number)
    command.wait(600)
    wait_until(lambda: not is_alive(int((tmp_path / "pid").read_text())), "the worker has ended")
