"""What a study is for and what it leaves: its metric, the results and their files, the hparams set to paste."""

import csv
import json
import math
from types import SimpleNamespace

import pytest

from t2t.hparams.transformer import transformer_tiny
from t2t.registry import HPARAMS
from t2t.tuning.searching import StudyResult, TrialRow
from t2t.tuning.settings import Objective, resolve_objective
from t2t.tuning.study import TrialReport
from tests.errors import refused
from tests.registrations import forgotten

BLEU = Objective("bleu", True)


def report(number, value, state="finished", **hparams):
    return TrialReport(number, state, hparams, value, 40 if value is not None else None, 50, f"s/trial_{number}")


@pytest.fixture
def result(tmp_path):
    rows = (
        TrialRow(report(1, 30.0, learning_rate=0.02, num_heads=2), (29.0, 31.0)),
        TrialRow(report(0, 20.5, learning_rate=0.01, num_heads=4)),
        TrialRow(report(2, None, "failed", learning_rate=0.9, num_heads=3)),
    )
    return StudyResult(tmp_path, BLEU, rows, "transformer_tiny", "")


def test_the_table_has_a_line_for_each_trial_mean_and_deviation_of_repeats_and_no_empty_column(result):
    assert result.best.report.number == 1
    assert (result.rows[0].mean, result.rows[0].deviation) == (30.0, pytest.approx(2**0.5))
    assert result.rows[1].mean is result.rows[1].deviation is None
    head, first, second, third = result.table().splitlines()
    assert head.split() == [
        "trial", "state", "bleu", "at_update", "updates", "repeats", "mean", "deviation", "learning_rate", "num_heads",
    ]  # fmt: skip
    assert first.split() == ["1", "finished", "30", "40", "50", "29", "31", "30", "1.414", "0.02", "2"]
    assert second.split() == ["0", "finished", "20.5", "40", "50", "0.01", "4"]
    assert third.split() == ["2", "failed", "50", "0.9", "3"]


def test_an_hparam_that_a_trial_does_not_read_has_an_empty_cell(tmp_path):
    rows = (TrialRow(report(0, 30.0, optimizer="adam")), TrialRow(report(1, 20.0, optimizer="adamw", weight_decay=0.1)))
    result = StudyResult(tmp_path, BLEU, rows, "transformer_tiny", "")
    result.write(transformer_tiny(), None)
    found = csv.DictReader((tmp_path / "results.tsv").read_text().splitlines(), delimiter="\t")
    assert [(one["optimizer"], one["weight_decay"]) for one in found] == [("adam", ""), ("adamw", "0.1")]
    assert result.table().splitlines()[2].split()[-2:] == ["adamw", "0.1"]


def test_files_hold_all_digits_and_a_study_without_a_value_has_no_best(result, tmp_path):
    tuned = transformer_tiny().replace(learning_rate=0.02, num_heads=2)
    result.write(transformer_tiny(), tuned)
    (first, *_) = csv.DictReader((result.study / "results.tsv").read_text().splitlines(), delimiter="\t")
    assert first["repeats"] == "29.0 31.0"
    assert float(first["deviation"]) == 2**0.5
    found = json.loads((result.study / "results.json").read_text())
    assert found["objective"] == "dev/bleu"
    assert [one["bleu"] for one in found["trials"]] == [30.0, 20.5, None]
    (tmp_path / "failed").mkdir()
    failed = StudyResult(tmp_path / "failed", BLEU, (TrialRow(report(0, None, "failed")),), "transformer_tiny", "")
    assert failed.best is None
    failed.write(transformer_tiny(), None)
    assert not (failed.study / "best_set.py").exists()


def test_the_set_to_paste_is_the_best_trials(result):
    tuned = transformer_tiny().replace(learning_rate=0.02, num_heads=2, norm_position="pre", train_steps=50)
    text = result.best_set(transformer_tiny(), tuned)
    with forgotten(HPARAMS), HPARAMS.open():
        exec(text, {"__name__": "pasted"})
        made = HPARAMS.get("transformer_tiny_tuned")()
    assert dict(made.items()) == dict(tuned.items())
    assert max(map(len, text.splitlines())) <= 120


# === The metric of a study: its name, its direction, and the hparams change that makes evaluations report it ===
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
