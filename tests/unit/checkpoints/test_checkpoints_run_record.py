"""The record of a run: damage, newer formats, and names that untrusted records may not contain."""

import dataclasses

import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from tests.errors import refused
from tests.unit.checkpoints.test_checkpoints_run_dir import ENCODERS, edit, record


@pytest.fixture
def run(tmp_path) -> RunDir:
    return RunDir.create(tmp_path / "run", record(), ENCODERS)


@pytest.mark.parametrize("content", [
    "", "{", "[]", "3", '"x"', "null", "{}", '{"format": "1"}', '{"format": 1}', "\udcff", '{"format": null}',
])  # fmt: skip
def test_a_damaged_record_is_told(run, content):
    (run.path / "run.json").write_bytes(content.encode(errors="surrogateescape"))
    with refused("run.json"):
        RunDir.open(run.path)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(RunRecord)])
@pytest.mark.parametrize("value", [None, 3, [["x"]], {"x": 3}])
def test_every_field_of_the_wrong_type_is_damage_or_harmless(run, field, value):
    edit(run, lambda data: data.update({field: value}))
    open_dicts = ("hparams", "problem_options", "versions", "warm_start", "distilled", "settings")
    if field in open_dicts and isinstance(value, dict):
        return
    if field == "plugins" and isinstance(value, list):
        return
    if field == "seed" and value in (None, 3):
        return
    with refused("run.json"):
        RunDir.open(run.path)


def test_a_newer_format_is_told(run):
    edit(run, lambda data: data.update(format=2, spec="something else"))
    with refused("run.json", 2, 1):
        RunDir.open(run.path)


@pytest.mark.parametrize(
    "file", ["../secret", "/etc/passwd", "a/b", "..", ".", "", ".hidden", "a\\b", "x" * 300, "a\n"]
)
def test_file_names_in_a_record_are_plain(run, file):
    edit(run, lambda data: data["vocabularies"]["targets"].update(file=file))
    with refused("run.json", "`$.vocabularies"):
        RunDir.open(run.path)
