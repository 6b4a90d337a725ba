"""`t2t-runs`: the table of runs, sorted and filtered, for a screen and for programs."""

import json

import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.cli import runs
from tests.unit.runs.test_runs_overview import make_run


@pytest.fixture
def folder(tmp_path):
    make_run(tmp_path / "good", [(100, 1000.0, {"train/tokens_per_second": 1234.5})])
    make_run(tmp_path / "sub/early", [(20, 2000.0, {"train/tokens_per_second": 99.0})])
    make_run(tmp_path / "bad").path.joinpath("run.json").write_text("{")
    return tmp_path


def printed(capsys, *arguments):
    assert runs.main(["t2t-runs", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_table_for_a_screen(folder, capsys):
    head, *rows = printed(capsys, folder).splitlines()
    assert head.split()[:8] == ["run", "state", "problem", "model", "set", "changes", "step", "of"]
    assert [row.split()[:2] for row in rows] == [["bad", "damaged"], ["good", "finished"], ["sub/early", "stopped"]]
    assert "1,234" in rows[1]
    assert "num_heads=2" in rows[1]


def test_sorting_and_filtering(folder, capsys):
    found = json.loads(printed(capsys, folder, "--sort=-tokens_per_second", "--format=json"))
    assert [one["run"] for one in found] == ["good", "sub/early", "bad"]  # unknown values come last
    found = json.loads(printed(capsys, folder, "--filter=state=stopped,problem=digits", "--format=json"))
    assert [one["run"] for one in found] == ["sub/early"]
    assert found[0]["step"] == 20
    assert printed(capsys, folder, "--filter=state=training") == f"no such run below {folder}\n"
    assert printed(capsys, folder, "--filter=state=training", "--format=json") == "[]\n"


def test_the_best_come_first_whichever_way_is_better(tmp_path, capsys):
    found = {"bleu": (3.0, 5.0), "mean/teacher_forced/loss": (0.4, 0.2), "a/ter": (70.0, 60.0), "plugged": (1.0, 2.0)}
    for metric, values in found.items():
        for number, value in enumerate(values):
            store = CheckpointStore(make_run(tmp_path / f"{metric.replace('/', '_')}{number}").checkpoints_folder)
            store.save(20, model={}, state={})
            store.mark_best(20, metric, value)
    for sort, first in (("-best", 1), ("best", 0)):
        runs_found = json.loads(printed(capsys, tmp_path, f"--sort={sort}", "--format=json"))
        assert [(one["metric"], one["best"]) for one in runs_found] == [
            (metric, found[metric][number]) for metric in sorted(found) for number in (first, 1 - first)
        ]


def test_tab_separated_values_have_every_name(folder, capsys):
    head, *rows = printed(capsys, folder, "--format=tsv").splitlines()
    assert len(rows) == 3
    assert all(row.count("\t") == head.count("\t") for row in rows)
