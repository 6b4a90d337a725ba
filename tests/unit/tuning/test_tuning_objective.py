"""The metric of a study: its name, its direction, and the hparams change that makes evaluations report it."""

import math
from types import SimpleNamespace

import pytest

from t2t.hparams.transformer import transformer_tiny
from t2t.tuning.objective import Objective, resolve_objective
from tests.errors import refused

A = SimpleNamespace(name="a", metrics=("bleu", "chrf"))
B = SimpleNamespace(name="b", metrics=("accuracy_per_sequence",))
PLAIN = SimpleNamespace(name="lm", metrics=())


def resolved(asked, *problems, overrides=""):
    return resolve_objective(asked, problems, transformer_tiny().override(overrides), overrides)


@pytest.mark.parametrize(
    ("asked", "problems", "overrides", "objective"),
    [
        ("", (A,), "", Objective("bleu", True)),
        ("dev/bleu", (A,), "", Objective("bleu", True)),
        ("chrf", (A,), "", Objective("chrf", True, "best_metric=chrf")),
        ("chrf", (A,), "best_metric=bleu", Objective("chrf", True)),
        ("", (A,), "best_metric=loss", Objective("teacher_forced/loss", False)),
        ("dev/loss", (A,), "", Objective("teacher_forced/loss", False, "best_metric=teacher_forced/loss")),
        ("", (PLAIN,), "", Objective("teacher_forced/loss", False)),
        ("", (A, B), "", Objective("mean/teacher_forced/loss", False)),
        ("dev/mean/loss", (A, B), "", Objective("mean/teacher_forced/loss", False)),
        ("b/accuracy_per_sequence", (A, B), "", Objective("b/accuracy_per_sequence", True)),
        ("a/perplexity", (A, B), "", Objective("a/teacher_forced/perplexity", False)),
    ],
)
def test_names(asked, problems, overrides, objective):
    assert resolved(asked, *problems, overrides=overrides) == objective


@pytest.mark.parametrize(
    ("asked", "problems", "overrides", "about"),
    [
        ("bleau", (A,), "", ["--objective=bleau", "'bleau'", "bleu"]),
        ("ter", (A,), "best_metric=bleu", ["ter", "best_metric"]),
        ("mean/bleu", (A, B), "", ["mean", "teacher_forced/loss"]),
        ("b/bleu", (A, B), "", ["b", "accuracy_per_sequence"]),
    ],
)
def test_what_no_evaluation_reports_is_refused(asked, problems, overrides, about):
    with refused(*about):
        resolved(asked, *problems, overrides=overrides)


def test_the_best_value_is_the_earliest_of_equals_and_finite():
    values = {10: 3.0, 20: math.nan, 30: 5.0, 40: 5.0, 50: math.inf}
    assert Objective("bleu", True).best(values) == (30, 5.0)
    assert Objective("loss", False).best(values) == (10, 3.0)
    assert Objective("loss", False).best({10: math.nan}) is None
