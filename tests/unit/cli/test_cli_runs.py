"""`t2t-runs`: the table of runs, sorted and filtered, for a screen and for programs."""

import json

import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.cli import runs
from tests.in_process import call
from tests.unit.runs.test_runs_overview import make_run


@pytest.fixture
def folder(tmp_path):
    make_run(tmp_path / "good", [(100, 1000.0, {"train/tokens_per_second": 1234.5})])
    make_run(tmp_path / "sub/early", [(20, 2000.0, {"train/tokens_per_second": 99.0})])
    make_run(tmp_path / "bad").path.joinpath("run.json").write_text("{")
    return tmp_path


def test_the_table_for_a_screen(folder):
    head, *rows = call(runs, folder).out.splitlines()
    assert head.split()[:8] == ["run", "state", "problem", "model", "set", "changes", "step", "of"]
    assert [row.split()[:2] for row in rows] == [["bad", "damaged"], ["good", "finished"], ["sub/early", "stopped"]]
    assert "1,234" in rows[1]
    assert "num_heads=2" in rows[1]


def test_sorting_filtering_and_formats(folder):
    found = json.loads(call(runs, folder, "--sort=-tokens_per_second", "--format=json").out)
    assert [one["run"] for one in found] == ["good", "sub/early", "bad"]  # unknown values come last
    (found,) = json.loads(call(runs, folder, "--filter=state=stopped,problem=digits", "--format=json").out)
    assert (found["run"], found["step"]) == ("sub/early", 20)
    for flags, expected in (([], f"no such run below {folder}\n"), (["--format=json"], "[]\n")):
        assert call(runs, folder, "--filter=state=training", *flags).out == expected
    head, *rows = call(runs, folder, "--format=tsv").out.splitlines()
    assert [row.count("\t") for row in rows] == [head.count("\t")] * 3, "every name has a value"


def test_the_best_come_first_whichever_way_is_better(tmp_path):
    found = {"bleu": (3.0, 5.0), "mean/teacher_forced/loss": (0.4, 0.2), "a/ter": (70.0, 60.0), "plugged": (1.0, 2.0)}
    for metric, values in found.items():
        for number, value in enumerate(values):
            store = CheckpointStore(make_run(tmp_path / f"{metric.replace('/', '_')}{number}").checkpoints_folder)
            store.save(20, model={}, state={})
            store.mark_best(20, metric, value)
    for sort, first in (("-best", 1), ("best", 0)):
        runs_found = json.loads(call(runs, tmp_path, f"--sort={sort}", "--format=json").out)
        assert [(one["metric"], one["best"]) for one in runs_found] == [
            (metric, found[metric][number]) for metric in sorted(found) for number in (first, 1 - first)
        ]
