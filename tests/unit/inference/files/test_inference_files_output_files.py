"""Outputs in separate files, whose names are the lines of the output file."""

import dataclasses
from types import SimpleNamespace

import pytest

from t2t.errors import MachineError
from t2t.inference.files.job import Job, decode_file
from t2t.inference.files.merging import merge_parts
from t2t.inference.files.output_files import job_renderer
from t2t.inference.files.shards import Shard
from t2t.inference.hypothesis import NOTHING, Hypothesis
from tests.errors import refused
from tests.reverser import Reverser

BEEPS = SimpleNamespace(name="beeps", output_suffix=".beep", output_file=lambda text: f"<{text}>".encode())
FOUND = [Hypothesis("a b", (5, 6, 1), -0.5, -0.75), Hypothesis("", (1,), -1.25, -1.5)]


class Beeper(Reverser):
    """Its outputs are written to files."""

    problem = BEEPS


@pytest.fixture
def job(tmp_path):
    """Returns a function that makes a job of ten lines, every third of them empty."""
    (tmp_path / "in").write_text("".join(f"line {n}\n" if n % 3 else "\n" for n in range(1, 11)))

    def make(target="out", **changes):
        paths = {"source": str(tmp_path / "in"), "target": str(tmp_path / target)}
        return Job(**paths, window=4, output_format="files", **changes)

    return make


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_lines_name_the_files_of_their_outputs(tmp_path):
    render = job_renderer("files", BEEPS, str(tmp_path / "out"))
    assert render(7, FOUND[:1], 1) == ("out.files/7.beep", 0)
    assert render(8, FOUND, 2) == ("out.files/8-1.beep\tout.files/8-2.beep", 0)
    assert render(9, [NOTHING], 1) == ("", 0)
    assert contents(tmp_path / "out.files") == {"7.beep": b"<a b>", "8-1.beep": b"<a b>", "8-2.beep": b"<>"}


def test_a_file_of_inputs_goes_on_after_a_crash_to_the_same_files(tmp_path, job):
    with pytest.raises(ConnectionError):
        decode_file(Beeper(breaks="line 7"), job())
    last = Beeper()
    decode_file(last, job())
    assert "line 1" not in last.asked
    named = [f"out.files/{n}.beep" if n % 3 else "" for n in range(1, 11)]
    assert (tmp_path / "out").read_text().splitlines() == named
    expected = {f"{n}.beep": f"<{f'line {n}'[::-1]}@{n - 1}>".encode() for n in range(1, 11) if n % 3}
    assert contents(tmp_path / "out.files") == expected


def test_shards_write_their_files_in_one_folder(tmp_path, job):
    decode_file(Beeper(), job("one"))
    for number in (1, 0):
        decode_file(Beeper(), dataclasses.replace(job(), shard=Shard(number, 2)))
    merge_parts(job().source, job().target)
    assert (tmp_path / "out").read_text() == (tmp_path / "one").read_text().replace("one.files", "out.files")
    assert contents(tmp_path / "out.files") == contents(tmp_path / "one.files")


@pytest.mark.parametrize(
    ("problem", "target", "about"),
    [
        (SimpleNamespace(name="wmt", output_suffix=""), "out", ["wmt", "text", "tsv", "jsonl", "pharaoh"]),
        (BEEPS, "-", ["--decode_to_file"]),
        (BEEPS, "", ["--decode_to_file"]),
    ],
)
def test_files_without_a_place_or_a_form_are_refused(problem, target, about):
    with refused("--output_format=files", *about):
        job_renderer("files", problem, target)


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "out.files").write_text("in the way")
    with refused(tmp_path / "out.files/7.beep", by=MachineError):
        job_renderer("files", BEEPS, str(tmp_path / "out"))(7, FOUND[:1], 1)
