"""Outputs in separate files, whose names are the lines of the output file."""

import dataclasses
from types import SimpleNamespace

import pytest

from t2t.errors import MachineError, UserError
from t2t.inference.files.job import NOTHING, Job, decode_file
from t2t.inference.files.merging import merge_parts
from t2t.inference.files.output_files import job_renderer
from t2t.inference.files.shards import Shard
from t2t.inference.translator import Hypothesis

BEEPS = SimpleNamespace(name="beeps", output_suffix=".beep", output_file=lambda text: f"<{text}>".encode())
FOUND = [Hypothesis("a b", (5, 6, 1), -0.5, -0.75), Hypothesis("", (1,), -1.25, -1.5)]


def test_lines_name_the_files_of_their_outputs(tmp_path):
    render = job_renderer("files", BEEPS, str(tmp_path / "out"))
    assert render(7, FOUND[:1], 1) == ("out.files/7.beep", 0)
    assert render(8, FOUND, 2) == ("out.files/8-1.beep\tout.files/8-2.beep", 0)
    assert render(9, [NOTHING], 1) == ("", 0)
    files = {path.name: path.read_bytes() for path in (tmp_path / "out.files").iterdir()}
    assert files == {"7.beep": b"<a b>", "8-1.beep": b"<a b>", "8-2.beep": b"<>"}


def test_a_file_of_inputs_goes_on_after_a_crash_to_the_same_files(tmp_path, reverser_class):
    lines = [f"line {n}" if n % 3 else "" for n in range(1, 11)]
    (tmp_path / "in").write_text("".join(line + "\n" for line in lines))
    job = Job(source=str(tmp_path / "in"), target=str(tmp_path / "out"), window=4, output_format="files")
    broken, whole = reverser_class(breaks="line 7"), reverser_class()
    broken.problem = whole.problem = BEEPS
    with pytest.raises(ConnectionError):
        decode_file(broken, job)
    decode_file(whole, job)
    assert "line 1" not in whole.asked
    named = (tmp_path / "out").read_text().splitlines()
    assert named == [f"out.files/{n}.beep" if line else "" for n, line in enumerate(lines, 1)]
    for n, line in enumerate(lines, 1):
        if line:
            assert (tmp_path / named[n - 1]).read_text() == f"<{line[::-1]}@{n - 1}>"


def test_shards_write_their_files_in_one_folder(tmp_path, reverser):
    (tmp_path / "in").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    reverser.problem = BEEPS
    jobs = {
        target: Job(source=str(tmp_path / "in"), target=str(tmp_path / target), window=4, output_format="files")
        for target in ("one", "out")
    }
    decode_file(reverser, jobs["one"])
    for number in (1, 0):
        decode_file(reverser, dataclasses.replace(jobs["out"], shard=Shard(number, 2)))
    merge_parts(jobs["out"].source, jobs["out"].target)
    assert (tmp_path / "out").read_text() == (tmp_path / "one").read_text().replace("one.files", "out.files")
    one, out = ({path.name: path.read_bytes() for path in tmp_path.glob(f"{name}.files/*")} for name in ("one", "out"))
    assert len(one) == 10
    assert out == one


@pytest.mark.parametrize(
    ("problem", "target", "message"),
    [
        (
            SimpleNamespace(name="wmt", output_suffix=""),
            "out",
            "--output_format=files: outputs of wmt are text alone; use one of text, tsv, jsonl, pharaoh",
        ),
        (
            BEEPS,
            "-",
            "--output_format=files: files go next to the output, which goes to standard output; name a file with "
            "--decode_to_file",
        ),
        (
            BEEPS,
            "",
            "--output_format=files: files go next to the output, which goes to no file; name a file with "
            "--decode_to_file",
        ),
    ],
)
def test_files_without_a_place_or_a_form_are_refused(problem, target, message):
    with pytest.raises(UserError) as raised:
        job_renderer("files", problem, target)
    assert str(raised.value) == message


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "out.files").write_text("in the way")
    with pytest.raises(MachineError, match=r"cannot write .*out.files/7.beep: "):
        job_renderer("files", BEEPS, str(tmp_path / "out"))(7, FOUND[:1], 1)
