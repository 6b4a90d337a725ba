"""Stored dev outputs of a run: few, small, and the same whether or not it was interrupted."""

import itertools
import json

import pytest

from t2t.checkpoints.dev_outputs import (
    MOST_CHARACTERS,
    MOST_EVALUATIONS,
    MOST_SENTENCES,
    DevOutputs,
    add_dev_outputs,
    read_dev_outputs,
)
from t2t.errors import MachineError
from tests.errors import refused

SOURCES, REFERENCES = [f"source {n}" for n in range(100)], [f"reference {n}" for n in range(100)]


def outputs(step, problem="", count=100):
    texts = [f"output {n} after {step}" for n in range(count)]
    return DevOutputs.pick(step, problem, SOURCES[:count], REFERENCES[:count], texts)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "dev_outputs.jsonl"


def test_what_is_kept_is_spread_evenly_and_belongs_together():
    kept = outputs(5)
    numbers = [int(text.split()[1]) for text in kept.sources]
    assert len(numbers) == MOST_SENTENCES
    assert (numbers[0], numbers[-1]) == (0, 99)
    assert {later - earlier for earlier, later in itertools.pairwise(numbers)} <= {4, 5}
    assert list(kept.references) == [f"reference {n}" for n in numbers]
    assert list(kept.outputs) == [f"output {n} after 5" for n in numbers]
    assert len(outputs(5, count=7).outputs) == 7
    assert DevOutputs.pick(1, "", None, ["r"], ["x" * 5000]).outputs == ("x" * MOST_CHARACTERS,)


def test_evaluations_are_read_as_they_were_added_and_sentences_are_written_once(file):
    assert read_dev_outputs(file) == []
    for step in (10, 20):
        add_dev_outputs(file, [outputs(step, "a"), outputs(step, "b", 3)])
    other = DevOutputs.pick(30, "b", None, ["another \u2028 \N{GRINNING FACE}"], ["output"])
    add_dev_outputs(file, [other])
    assert read_dev_outputs(file) == [
        outputs(10, "a"), outputs(10, "b", 3), outputs(20, "a"), outputs(20, "b", 3), other,
    ]  # fmt: skip
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert ["sources" in line for line in lines] == [True, True, False, False, True]
    file.unlink()
    file.mkdir()
    with refused(file, by=MachineError):
        add_dev_outputs(file, [outputs(1)])


def test_a_resumed_run_writes_what_it_would_have_written(file, tmp_path):
    for step in (10, 20, 30, 40):
        add_dev_outputs(file, [outputs(step)])
    whole = file.read_bytes()
    add_dev_outputs(file, [outputs(20)])
    assert [one.step for one in read_dev_outputs(file)] == [10, 20]
    for step in (30, 40, 40):
        add_dev_outputs(file, [outputs(step)])
    assert file.read_bytes() == whole


def test_the_file_stays_small(file):
    for step in range(1, MOST_EVALUATIONS + 2):
        add_dev_outputs(file, [outputs(step, name, 1) for name in ("long", "short") if name == "long" or step < 4])
    steps = [one.step for one in read_dev_outputs(file) if one.problem == "long"]
    assert steps == [*range(1, MOST_EVALUATIONS + 1, 2), MOST_EVALUATIONS + 1]
    assert [one.step for one in read_dev_outputs(file) if one.problem == "short"] == [1, 2, 3]


@pytest.mark.parametrize("damaged", [
    b"", b"{", b"\xff\xfe", b"[]", b'"text"', b"3", b'{"step": 3}', b'{"step": 3, "problem": [], "outputs": []}',
    b'{"step": 3, "problem": "", "outputs": ["one"]}', b'{"step": "3", "problem": "", "outputs": ["a", "b", "c"]}',
    b'{"step": 3, "problem": "", "outputs": [1, 2, 3]}', b'{"step": 3, "problem": "x", "outputs": ["a", "b", "c"]}',
    b"[" * 100_000,
])  # fmt: skip
def test_damaged_lines_are_passed_over(file, damaged):
    add_dev_outputs(file, [outputs(1, count=3)])
    add_dev_outputs(file, [outputs(2, count=3)])
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + damaged + b"\n" + second)
    assert [one.step for one in read_dev_outputs(file)] == [1, 2]
