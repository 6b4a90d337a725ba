"""Every output format gives one line for each input, whatever the model's output; outputs in separate files."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import MachineError, UnknownNameError
from t2t.features.text import Text
from t2t.inference.files.decoding import Job, decode_file
from t2t.inference.files.formats import FORMATS, job_renderer, renderer
from t2t.inference.files.shards import Shard, merge_parts
from t2t.inference.hypothesis import NOTHING, Hypothesis
from tests.errors import refused
from tests.reverser import Reverser

FOUND = [Hypothesis("ein\nHund\r", (5, 1), -0.5, -0.75), Hypothesis("der\tHund\u2028", (6, 1), -1.25, -1.5)]
ALIGNED = [
    Hypothesis("ein Hund", (5, 6, 1), -0.5, -0.75, alignment=((0, 1), (2, 0))),
    Hypothesis("", (1,), -1.0, -1.0, alignment=()),
]


@pytest.mark.parametrize(
    ("name", "found", "n_best", "line", "replaced"),
    [
        ("text", FOUND[:1], 1, "ein Hund ", 1),
        ("text", FOUND[1:], 1, "der\tHund\u2028", 0),
        ("text", FOUND, 2, "ein Hund \tder Hund\u2028", 2),  # no tab stands in one of several
        ("tsv", FOUND, 3, "ein Hund \t-0.500000\t-0.750000\tder Hund\u2028\t-1.250000\t-1.500000\t\t\t", 2),
        ("text", ALIGNED[:1], 1, "ein Hund ||| 0-1 2-0", 0),
        ("text", ALIGNED, 2, "ein Hund ||| 0-1 2-0\t ||| ", 0),
        ("tsv", ALIGNED, 3, "ein Hund\t-0.500000\t-0.750000\t0-1 2-0\t\t-1.000000\t-1.000000\t\t\t\t\t", 0),
        ("pharaoh", ALIGNED, 2, "0-1 2-0\t", 0),
        ("pharaoh", ALIGNED[1:], 1, "", 0),
    ],
)
def test_a_line_of_outputs(name, found, n_best, line, replaced):
    assert renderer(name)(7, found, n_best) == (line, replaced)


def test_jsonl_keeps_every_character():
    line, replaced = renderer("jsonl")(7, FOUND, 2)
    assert replaced == 0
    assert line.splitlines() == [line]
    assert json.loads(line) == {
        "line": 7,
        "hypotheses": [
            {"text": "ein\nHund\r", "score": -0.5, "log_prob": -0.75},
            {"text": "der\tHund\u2028", "score": -1.25, "log_prob": -1.5},
        ],
    }
    assert "ü" in renderer("jsonl")(1, [Hypothesis("über", (), 0.0, 0.0)], 1)[0], "text stays readable"


def test_jsonl_has_alignments_and_the_scores_of_tokens():
    found = json.loads(renderer("jsonl")(7, ALIGNED, 2)[0])["hypotheses"]
    assert [one["alignment"] for one in found] == [[[0, 1], [2, 0]], []]
    one = Hypothesis("a b", (5, 6, 1), -0.5, -1.5, tokens=(("a", -0.25), ("b", -1.25), ("</s>", -0.0000001)))
    (found,) = json.loads(renderer("jsonl")(1, [one], 1)[0])["hypotheses"]
    assert found["tokens"] == [["a", -0.25], ["b", -1.25], ["</s>", 0.0]]


def test_jsonl_marks_an_output_that_is_cut():
    (found,) = json.loads(renderer("jsonl")(1, [Hypothesis("a b", (5, 6), -0.5, -1.5, cut=True)], 1)[0])["hypotheses"]
    assert found == {"text": "a b", "score": -0.5, "log_prob": -1.5, "finish_reason": "length"}


@given(st.lists(st.text(), min_size=1, max_size=3), st.sampled_from(sorted(FORMATS)))
def test_no_output_breaks_its_line_or_its_columns(texts, name):
    found = [Hypothesis(text, (), -1.0, -1.0) for text in texts]
    line, _ = renderer(name)(1, found, 3)
    assert not set("\n\r") & set(line)
    if name == "tsv":
        assert line.count("\t") == 8
    if name == "text":
        assert line.count("\t") == len(texts) - 1
    if name == "jsonl":
        assert [one["text"] for one in json.loads(line)["hypotheses"]] == texts


def test_an_unknown_format():
    with refused("'json'", "jsonl", "text", "tsv", "pharaoh", by=UnknownNameError):
        renderer("json")


# === Files whose names are the lines of the output file ===

BEEPS = SimpleNamespace(
    name="beeps", features={"targets": Text(output_suffix=".beep", write=lambda text: f"<{text}>".encode())}
)
BEEPED = [Hypothesis("a b", (5, 6, 1), -0.5, -0.75), Hypothesis("", (1,), -1.25, -1.5)]


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
    assert render(7, BEEPED[:1], 1) == ("out.files/7.beep", 0)
    assert render(8, BEEPED, 2) == ("out.files/8-1.beep\tout.files/8-2.beep", 0)
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
        (SimpleNamespace(name="wmt", features={}), "out", ["wmt", "text", "tsv", "jsonl", "pharaoh"]),
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
        job_renderer("files", BEEPS, str(tmp_path / "out"))(7, BEEPED[:1], 1)
