"""`t2t-insight --plot` of folders in which not every run can be drawn."""

import pytest

from t2t.cli import insight
from tests.in_process import check_refused
from tests.many_runs import write_run


@pytest.fixture
def folder(tmp_path):
    """Three runs: one with figures, one without, one with a damaged record."""
    write_run(tmp_path / "drawn", 3)
    write_run(tmp_path / "young", 0)
    damaged = write_run(tmp_path / "damaged", 3)
    (damaged.path / "run.json").write_text("{")
    return tmp_path


def test_runs_without_curves_are_left_out_with_a_warning(folder, capsys):
    assert insight.main(["t2t-insight", str(folder), f"--plot={folder}/x.png"]) == 0
    damaged, young = capsys.readouterr().err.splitlines()
    assert damaged.startswith(f"warning: damaged is not drawn: {folder}/damaged/run.json ")
    assert young.startswith(f"warning: young is not drawn: {folder}/young ")
    assert (folder / "x.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(("name", "file"), [("young", "metrics.jsonl"), ("damaged", "run.json")])
@pytest.mark.parametrize("flag", ["", "--output_dir="])
def test_a_run_that_is_named_is_drawn_or_refused(folder, name, file, flag):
    named = [folder / "drawn", f"{flag}{folder / name}", f"--plot={folder}/x.png"]
    check_refused(insight, *named, about=f"{folder / name} {file}")
    assert not (folder / "x.png").exists()


def test_nothing_to_draw_is_refused(folder, capsys):
    (folder / "drawn/metrics.jsonl").write_text("")
    assert insight.main(["t2t-insight", str(folder), f"--plot={folder}/x.png"]) == 2
    assert f"error: --plot={folder}/x.png: " in capsys.readouterr().err.splitlines()[-1]
    assert not (folder / "x.png").exists()
