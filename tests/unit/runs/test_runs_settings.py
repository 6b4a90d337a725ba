"""Bounds of run settings are the same in Python and on the command line, and are defined only once."""

import contextlib
import dataclasses
from pathlib import Path

import pytest

from t2t.cli import trainer
from t2t.cli.problem_flags import problem_options
from t2t.errors import UserError
from t2t.runs.names import get_problem
from t2t.runs.settings import REMEMBERED, Settings
from tests.errors import refused

FLAGS = {
    "seed": "random_seed", "worker_gpu": "worker_gpu", "worker_cpu": "worker_cpu",
    "eval_every": "local_eval_frequency", "eval_steps": "eval_steps", "keep_checkpoint_max": "keep_checkpoint_max",
    "keep_best_checkpoints": "keep_best_checkpoints", "log_every": "log_step_count_steps",
}  # fmt: skip


@pytest.mark.parametrize("field", FLAGS)
def test_a_value_is_refused_from_python_exactly_where_the_flag_refuses_it(field, capsys):
    for value in (-1, 0, 1, *([2**32 - 1, 2**32] if field == "seed" else [])):
        from_python = None
        with contextlib.suppress(UserError):
            from_python = getattr(Settings(**{field: value}), field)
        assert trainer.main(["t2t-trainer", f"--{FLAGS[field]}={value}"]) == 2  # there is no --problem either
        said = capsys.readouterr().err
        assert ("--problem" in said) == (from_python == value), said


@pytest.mark.parametrize(("values", "about"), [
    ({"log_every": 0}, "1"), ({"eval_every": 0}, "1"), ({"seed": -1}, "0"), ({"seed": 2**32}, "4294967295"),
    ({"seed": "1"}, "int"), ({"keep_best_checkpoints": 0}, "1"), ({"evaluates": 1}, "bool"),
    ({"worker_cpu": -1, "worker_gpu": -2}, "0"),
])  # fmt: skip
def test_wrong_settings_are_one_line(values, about):
    with refused(about, *(f"{name}={value!r}" for name, value in values.items())):
        Settings(**values)
    assert Settings(warm_start_from=Path("a/b")).warm_start_from == "a/b", "a path may be one"


def test_flags_have_the_defaults_of_the_fields_and_the_size_of_a_vocabulary_is_bounded_from_python_too():
    values = trainer.build_flags()
    values(["t2t-trainer"])
    for field in dataclasses.fields(Settings):
        if field.name not in ("seed", "evaluates"):
            assert values[FLAGS.get(field.name, field.name)].value == field.default
    assert values["random_seed"].value is None
    with refused("vocab_size=-4", 0):
        get_problem("text2text_files", {"vocab_size": -4})
    values = trainer.build_flags()
    values(["t2t-trainer", "--vocab_size=7"])
    assert problem_options(values) == {"vocab_size": 7}


@pytest.mark.parametrize("values", [{"eval_steps": 0}, {"evaluates": False}])
def test_the_best_ones_are_kept_by_runs_that_evaluate_and_others_do_not_say_how_many(values):
    with refused("--keep_best_checkpoints=2", "--schedule=continuous_train_and_eval", "--eval_steps"):
        Settings(keep_best_checkpoints=2, **values)
    every = Settings().remembered()
    assert set(every) == set(REMEMBERED)
    assert set(every) - set(Settings(**values).remembered()) == {"keep_best_checkpoints"}
