"""Scoring a file: one number for each line, in order, the same however often it was interrupted."""

import gzip
import io
import os
import sys
from types import SimpleNamespace

import pytest

from t2t.errors import UserError
from t2t.inference.files.scoring import score_file
from t2t.inference.files.windows import FileJob

PAIRS = [("a" * (n % 5), "b" * (n % 7)) for n in range(40)]
TEXT = "".join(f"{source}\t{target}\n" for source, target in PAIRS)


@pytest.fixture
def job(tmp_path):
    (tmp_path / "in").write_text(TEXT)

    def make(**changes):
        return FileJob(**{"source": str(tmp_path / "in"), "target": str(tmp_path / "out"), "window": 8, **changes})

    return make


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def expected(pairs=PAIRS):
    return "".join(f"{0.0 - (1000 * len(source) + len(target)):.6f}\n" for source, target in pairs)


def test_every_pair_is_scored_in_its_place_empty_sides_too(job, out, reverser):
    report = score_file(reverser, job())
    assert out.read_text() == expected()
    assert (report.lines, report.done) == (40, 40)
    assert report.tokens == sum(len(target) + 1 for _, target in PAIRS)
    assert report.speed().startswith("scored 40 lines in ")
    assert report.warnings("so many ids") == []


def test_a_packed_file_gives_the_same(job, out, tmp_path, reverser):
    (tmp_path / "in").write_bytes(gzip.compress(TEXT.encode()))
    score_file(reverser, job())
    assert out.read_text() == expected()


def test_a_line_of_a_language_model_is_the_target_alone(job, out, tmp_path, reverser_class):
    (tmp_path / "in").write_text("abc\n\na\tb\tc\n")
    score_file(reverser_class(has_inputs=False), job())
    assert out.read_text() == "-3.000000\n0.000000\n-5.000000\n"


def test_what_is_too_long_is_cut_or_not_scored_and_counted(job, out, tmp_path, reverser_class):
    lines = [b"short\tab", b"much too long\tab", b"a\tmuch too long", b"\xff\tn\x00ul"]
    (tmp_path / "in").write_bytes(b"\n".join(lines))
    report = score_file(reverser_class(longest_input=6), job())
    assert out.read_text() == "-5002.000000\n-6002.000000\nnan\n-1003.000000\n"
    assert report.warnings("the 7 ids that max_input_length allows") == [
        "cut to the 7 ids that max_input_length allows: 1 line (number 2)",
        "not scored (nan), since the target is longer than the 7 ids that max_input_length allows: 1 line (number 3)",
        "NUL characters removed in 1 line",
        "invalid UTF-8 replaced in 1 line",
    ]


def test_what_is_exactly_the_longest_is_scored_whole(job, out, tmp_path, reverser_class):
    (tmp_path / "in").write_text("123456\tab\n1234567\tab\na\t123456\na\t1234567\n")
    report = score_file(reverser_class(longest_input=6), job())
    assert out.read_text() == "-6002.000000\n-6002.000000\n-1006.000000\nnan\n"
    assert (report.cut.first, report.unscored.first) == ([2], [4])


def test_a_language_code_behind_inputs_takes_no_room_from_targets(job, out, tmp_path, reverser_class):
    (tmp_path / "in").write_text("12345\t123456\n123456\tab\na\t1234567\n")
    report = score_file(reverser_class(longest_input=5, longest_target=6), job())
    assert out.read_text() == "-5006.000000\n-5002.000000\nnan\n"
    assert (report.cut.first, report.unscored.first) == ([2], [3])


def test_interrupted_and_gone_on_is_undisturbed(job, out, tmp_path, reverser_class, caplog):
    caplog.set_level("INFO", logger="t2t")
    (tmp_path / "in").write_text(TEXT + "a\t" + "too long " * 6 + "\na\tbreak\n")
    score_file(reverser_class(), job())
    undisturbed = out.read_bytes()
    out.unlink()
    with pytest.raises(ConnectionError):
        score_file(reverser_class(breaks="break"), job())
    assert (tmp_path / "out.partial").read_bytes().count(b"\n") == 40
    report = score_file(reverser_class(), job())
    assert out.read_bytes() == undisturbed
    assert "resuming after line 40 of an interrupted attempt" in caplog.messages
    assert (report.lines, report.done, report.unscored.first) == (42, 2, [41])
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no tab", "line 30 has 1 column; a line needs 2, source TAB target; correct the file"),
        ("", "line 30 has 1 column; a line needs 2, source TAB target; correct the file"),
        ("a\tb\tc", "line 30 has 3 columns; a line needs 2, source TAB target; correct the file"),
    ],
)
def test_a_line_of_other_columns_is_named_before_anything_is_written(job, tmp_path, reverser, line, said):
    lines = TEXT.split("\n")
    (tmp_path / "in").write_text("\n".join([*lines[:29], line, *lines[29:]]))
    with pytest.raises(UserError) as raised:
        score_file(reverser, job())
    assert str(raised.value) == f"{tmp_path / 'in'}: {said}"
    assert os.listdir(tmp_path) == ["in"]
    assert reverser.asked == []


def test_of_a_stream_the_windows_before_are_written(out, tmp_path, reverser, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\tb\n" * 17 + b"no tab\n")))
    with pytest.raises(UserError, match="standard input: line 18 has 1 column; a line needs 2, source TAB target"):
        score_file(reverser, FileJob(source="-", target=str(out), window=8))
    assert (tmp_path / "out.partial").read_bytes().count(b"\n") == 16
    assert not out.exists()


def test_the_input_is_not_written_over(job, tmp_path, reverser):
    with pytest.raises(UserError, match=r"cannot write .*in: it is the file that is read; write elsewhere"):
        score_file(reverser, job(target=str(tmp_path / "in")))
