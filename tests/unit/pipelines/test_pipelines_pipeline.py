import pytest

from t2t.errors import MachineError, UserError
from t2t.pipelines.options import parse_beam_options
from t2t.pipelines.pipeline import run_pipeline
from t2t.pipelines.task import Failures
from tests.errors import refused
from tests.tasks import Touch


def run(task, options="--runner=DirectRunner"):
    return run_pipeline(task, range(task.count), parse_beam_options(options))


@pytest.mark.parametrize(
    "options", ["--runner=DirectRunner", "--direct_num_workers=2 --direct_running_mode=multi_threading"]
)
def test_every_element_is_done_and_counted_and_a_process_opens_once(tmp_path, options):
    task = Touch(tmp_path)
    assert run(task, options) == {"elements": 5} | {f"times {element}": 10 for element in range(5)}
    assert all(map(task.is_done, range(5)))
    assert (tmp_path / "opened").read_text() == "x"
    assert task.failures.first() is None


def test_a_mistake_of_the_user_is_kept_and_nothing_is_begun_after_it(tmp_path):
    task = Touch(tmp_path, count=1, error=UserError, failing=0)
    run(task)
    error = task.failures.first()
    assert type(error) is UserError
    assert str(error) == "element 0 is wrong"
    (tmp_path / "opened").unlink()
    run(Touch(tmp_path))
    assert not list(tmp_path.glob("*.done"))
    assert not (tmp_path / "opened").exists()


def test_a_fault_of_the_machine_is_left_to_the_runner_and_forgotten_once_another_try_succeeds(tmp_path):
    task = Touch(tmp_path, error=MachineError, failing=2, tries=1)
    with refused(2, by=Exception):
        run(task)
    error = task.failures.first()
    assert type(error) is MachineError
    assert str(error) == "element 2 is wrong"
    run(task)
    assert task.failures.first() is None
    assert all(map(task.is_done, range(5)))


def test_the_first_failure_is_that_of_the_lowest_element(tmp_path):
    failures = Failures(tmp_path / "failures")
    assert failures.first() is None
    failures.add(12, UserError("later"))
    failures.add(3, MachineError("first"))
    assert str(failures.first()) == "first"
    (tmp_path / "failures/000000003.json").write_text("{")
    assert str(failures.first()) == "later", "one that is damaged counts for nothing"
    failures.clear()
    failures.clear()
    assert failures.first() is None
