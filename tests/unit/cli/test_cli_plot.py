"""`t2t-insight --plot` of folders in which not every run can be drawn."""

import pytest

from t2t.cli import insight
from t2t.serving.insight import curves as plotting
from tests.many_runs import write_run


@pytest.fixture
def folder(tmp_path):
    """Three runs: one with figures, one without, one with a damaged record."""
    write_run(tmp_path / "drawn", 3)
    write_run(tmp_path / "young", 0)
    damaged = write_run(tmp_path / "damaged", 3)
    (damaged.path / "run.json").write_text("{")
    return tmp_path


def plot(monkeypatch, *arguments):
    """Returns the exit status and the names of the drawn runs."""
    drawn = []
    monkeypatch.setattr(plotting, "plot_curves", lambda runs, path: drawn.extend(runs) or ["train/loss"])
    return insight.main(["t2t-insight", *map(str, arguments)]), drawn


def test_runs_without_curves_are_left_out_with_a_warning(folder, monkeypatch, capsys):
    assert plot(monkeypatch, folder, f"--plot={folder}/x.png") == (0, ["drawn"])
    damaged, young = capsys.readouterr().err.splitlines()
    assert damaged.startswith(f"warning: damaged is not drawn: {folder}/damaged/run.json ")
    assert young == (
        f"warning: young is not drawn: {folder}/young has no figures of its training yet: metrics.jsonl is missing or "
        f"empty"
    )


@pytest.mark.parametrize(("name", "said"), [("young", "has no figures of its training yet"), ("damaged", "run.json")])
@pytest.mark.parametrize("flag", ["", "--output_dir="])
def test_a_run_that_is_named_is_drawn_or_refused(folder, monkeypatch, capsys, name, said, flag):
    assert plot(monkeypatch, folder / "drawn", f"{flag}{folder / name}", f"--plot={folder}/x.png") == (2, [])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"t2t-insight: error: {folder / name}")
    assert said in line


def test_nothing_to_draw_is_refused(folder, monkeypatch, capsys):
    (folder / "drawn/metrics.jsonl").write_text("")
    assert plot(monkeypatch, folder, f"--plot={folder}/x.png") == (2, [])
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"t2t-insight: error: --plot={folder}/x.png: none of the runs has figures to draw; train them on, or name "
        f"others"
    )
