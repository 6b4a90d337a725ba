import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from t2t.pipelines.options import parse_beam_options, runner_of, runs_here
from tests.errors import refused


@pytest.mark.parametrize("runner", ["", "--runner=DirectRunner", "--runner=directrunner", "--runner=FnApiRunner"])
def test_pipelines_of_this_machine_need_no_program_that_is_downloaded(runner):
    options = parse_beam_options(f"{runner} --direct_num_workers=2 --direct_running_mode=multi_processing")
    assert runs_here(options)
    assert isinstance(runner_of(options), FnApiRunner)


def test_options_of_other_runners_are_passed_on():
    options = parse_beam_options("--runner=FlinkRunner --flink_master=localhost:8081 --option_of_the_cluster=3")
    assert not runs_here(options)
    assert options.get_all_options()["flink_master"] == "localhost:8081"
    assert type(runner_of(options)).__name__ == "FlinkRunner"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("--direct_num_worker=2", ["--direct_num_worker;"]),
        ("--direct_num_workers=two", ["--direct_num_workers:", "'two'"]),
        ("--direct_running_mode=fast", ["--direct_running_mode:", "'fast'"]),
        ("--runner=NoRunner", ["NoRunner."]),
        ("--runner='DirectRunner", []),
        ("direct_num_workers=2", ["'direct_num_workers=2'"]),
        ("--help", ["'--help'"]),
    ],
)
def test_wrong_options_are_named(text, named, capfd):
    with refused(f"--beam_options={text!r}:", *named, "--runner=DirectRunner"):
        parse_beam_options(text)
    assert capfd.readouterr().out == ""
