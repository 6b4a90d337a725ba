"""Hparams side by side: every one of every run, and which differ."""

from itertools import pairwise

from t2t.serving.insight.hparams_table import hparams_json
from tests.many_runs import write_run


def test_what_differs_is_marked_and_what_a_run_lacks_is_null(tmp_path):
    first = write_run(tmp_path / "a", 1, learning_rate=0.5).record
    second = write_run(tmp_path / "b", 1, learning_rate=0.25).record
    del second.hparams["model"]["num_heads"]
    found = hparams_json({"a": first, "b": second})
    assert found["runs"] == ["a", "b"]
    rows = {(row["section"], row["name"]): row for row in found["rows"]}
    assert rows["schedule", "learning_rate"]["values"] == [0.5, 0.25]
    assert rows["model", "num_heads"]["values"] == [first.hparams["model"]["num_heads"], None]
    assert rows["run", "model"]["values"] == ["transformer", "transformer"]
    differing = {key for key, row in rows.items() if row["differs"]}
    assert differing == {("schedule", "learning_rate"), ("model", "num_heads")}
    wanted = {(section, name) for section, values in first.hparams.items() for name in values}
    assert wanted <= set(rows)


def test_a_section_stands_in_one_piece(tmp_path):
    first = write_run(tmp_path / "a", 1).record
    second = write_run(tmp_path / "b", 1).record
    second.hparams["model"]["another"] = 1
    sections = [row["section"] for row in hparams_json({"a": first, "b": second})["rows"]]
    changes = sum(one != other for one, other in pairwise(sections))
    assert changes == len(set(sections)) - 1
