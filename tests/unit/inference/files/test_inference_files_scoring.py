"""Scoring a file: one number for each line, in order, the same however often it was interrupted."""

import gzip
import os

import pytest

from t2t.inference.files.scoring import score_file
from t2t.inference.files.windows import FileJob
from tests.errors import refused
from tests.reverser import Reverser

PAIRS = [("a" * (n % 5), "b" * (n % 7)) for n in range(40)]
TEXT = "".join(f"{source}\t{target}\n" for source, target in PAIRS)
EXPECTED = "".join(f"{0.0 - (1000 * len(source) + len(target)):.6f}\n" for source, target in PAIRS)


@pytest.fixture
def scored(tmp_path):
    """Returns a function that scores a text and returns the output and the report."""

    def score(content=TEXT, reverser=None, **changes):
        (tmp_path / "in").write_bytes(content if isinstance(content, bytes) else content.encode())
        named = {"source": str(tmp_path / "in"), "target": str(tmp_path / "out"), "window": 8, **changes}
        report = score_file(reverser or Reverser(), FileJob(**named))
        return (tmp_path / "out").read_text(), report

    return score


def test_every_pair_is_scored_in_its_place_empty_sides_too(scored):
    found, report = scored()
    assert found == EXPECTED
    assert (report.lines, report.done, report.warnings("so many ids")) == (40, 40, [])
    assert report.tokens == sum(len(target) + 1 for _, target in PAIRS)
    assert report.speed().startswith("scored 40 lines in ")
    assert scored(gzip.compress(TEXT.encode()))[0] == EXPECTED, "of a packed file, too"


@pytest.mark.parametrize(
    ("lines", "reverser", "expected", "cut", "unscored"),
    [
        # A line of a language model is the target alone.
        ("abc\n\na\tb\tc\n", {"has_inputs": False}, [-3, 0, -5], [], []),
        # What is exactly the longest is scored whole.
        ("123456\tab\n1234567\tab\na\t123456\na\t1234567\n", {"longest_input": 6}, [-6002, -6002, -1006, "nan"],
         [2], [4]),
        # A language code behind inputs takes no room from targets.
        ("12345\t123456\n123456\tab\na\t1234567\n", {"longest_input": 5, "longest_target": 6}, [-5006, -5002, "nan"],
         [2], [3]),
        (b"short\tab\nmuch too long\tab\na\tmuch too long\n\xff\tn\x00ul", {"longest_input": 6},
         [-5002, -6002, "nan", -1003], [2], [3]),
    ],
)  # fmt: skip
def test_what_is_too_long_is_cut_or_not_scored_and_counted(scored, lines, reverser, expected, cut, unscored):
    found, report = scored(lines, Reverser(**reverser))
    assert found.split() == [score if score == "nan" else f"{score:.6f}" for score in expected]
    assert (report.cut.first, report.unscored.first) == (cut, unscored)
    assert len(report.warnings("so many ids")) == len(cut) + len(unscored) + 2 * isinstance(lines, bytes)


def test_interrupted_and_gone_on_is_undisturbed(scored, tmp_path, caplog):
    caplog.set_level("INFO", logger="t2t")
    text = TEXT + "a\t" + "too long " * 6 + "\na\tbreak\n"
    undisturbed, _ = scored(text)
    (tmp_path / "out").unlink()
    with pytest.raises(ConnectionError):
        scored(text, Reverser(breaks="break"))
    assert (tmp_path / "out.partial").read_bytes().count(b"\n") == 40
    found, report = scored(text)
    assert found == undisturbed
    assert (report.lines, report.done, report.unscored.first) == (42, 2, [41])
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.parametrize(("line", "columns"), [("no tab", 1), ("", 1), ("a\tb\tc", 3)])
def test_a_line_of_other_columns_is_named_before_anything_is_written(scored, tmp_path, line, columns):
    lines, reverser = TEXT.split("\n"), Reverser()
    with refused(tmp_path / "in", 30, columns, 2, "TAB"):
        scored("\n".join([*lines[:29], line, *lines[29:]]), reverser)
    assert os.listdir(tmp_path) == ["in"]
    assert reverser.asked == []


def test_of_a_stream_the_windows_before_are_written(scored, tmp_path, stdin):
    stdin(b"a\tb\n" * 17 + b"no tab\n")
    with refused(18, 1, 2, "TAB"):
        scored(source="-")
    assert (tmp_path / "out.partial").read_bytes().count(b"\n") == 16
    assert not (tmp_path / "out").exists()


def test_the_input_is_not_written_over(scored, tmp_path):
    with refused(tmp_path / "in"):
        scored(target=str(tmp_path / "in"))
    assert (tmp_path / "in").read_text() == TEXT
