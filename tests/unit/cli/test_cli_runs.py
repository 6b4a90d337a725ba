"""`t2t-runs`: the table of runs, sorted and filtered, for a screen and for programs."""

import json

import pytest

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
