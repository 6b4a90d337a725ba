"""Scoring a file: one number for each line, the same however often it was interrupted; choosing between two outputs."""

import gzip
import os
from collections import Counter
from pathlib import Path

import pytest

from t2t.inference.files.scoring import judge_choices, score_file
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


# === Choices, with a model whose log-probability is minus the number of letters ===

EXAMPLE = Path(__file__).parents[4] / "examples" / "winograd_enfr.tsv"
LINES = "s\tlong\tlo\tB\ns\tlo\tlong\tA \ns\tlong\tlo\tA\ns\tlo\tlong\tB\ns\tof a length\tthe same !!\tA\n"


@pytest.fixture
def choices(tmp_path):
    def write(content):
        path = tmp_path / "choices"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.mark.parametrize("window", [4096, 2])
def test_the_shorter_is_chosen_and_none_of_two_that_are_equal(choices, window):
    """Right in lines 1 and 2, wrong in 3 and 4, undecided in 5."""
    judged = judge_choices(Reverser(), choices(LINES), window)
    assert (judged.right, judged.of, judged.ties) == (2, 5, 1)
    assert str(judged) == "accuracy 0.400 (2 of 5)"


def test_equal_ids_are_a_tie_however_they_are_rounded(choices):
    class Rounding(Reverser):
        def encode_targets(self, texts, sources=None, name_of=None):
            return [[2] for _ in texts]  # unknown words

        def score_ids(self, sources, targets, *, on_done=None):
            return [-1.0, -1.0000001][: len(targets)]

    judged = judge_choices(Rounding(), choices("s\ta\tb\tA\n"))
    assert (judged.right, judged.of, judged.ties) == (0, 1, 1)


def test_a_language_model_does_not_look_at_the_source(choices):
    class Continuer(Reverser):
        def encode(self, texts):
            pytest.fail("the source was looked at")

    assert str(judge_choices(Continuer(has_inputs=False), choices(LINES))) == "accuracy 0.400 (2 of 5)"


@pytest.mark.parametrize(
    ("longest_input", "lines", "cut"),
    [
        (6, "123456\t1\t123456\tA\n1234567\t1\t2\tA\n", [2]),
        (5, "123456\t1\t123456\tA\n", [1]),  # a language code behind inputs takes no room from outputs
    ],
)
def test_what_is_exactly_the_longest_is_compared_whole(choices, longest_input, lines, cut):
    reverser = Reverser(longest_input=longest_input, longest_target=6)
    judged = judge_choices(reverser, choices(lines))
    assert (judged.right, judged.report.cut.first) == (1, cut)
    with refused("choices:", "B", 8, 7):
        judge_choices(reverser, choices("s\t1\t1234567\tA\n"))


def test_what_is_cut_and_repaired_is_reported(choices):
    judged = judge_choices(Reverser(longest_input=6), choices(b"s\ta\tbb\tA\nmuch too long\ta\x00\t\xff\xff\tA\n"))
    assert str(judged) == "accuracy 1.000 (2 of 2)"
    assert judged.report.cut.first == [2]
    assert len(judged.report.warnings("so many ids")) == 3


@pytest.mark.parametrize(
    ("content", "about"),
    [
        ("", ["TAB"]), ("s\ta\tb\tA\ns\ta\tA\n", [2, 3, 4, "TAB"]), ("s\ta\tb\tC\n", [1, "'C'", "A", "B"]),
        ("s\ta\ta\tA\n", [1]), ("s\ta\tmuch too long\tA\n", [1, "B", 14, 7, "max_input_length"]),
    ],
)  # fmt: skip
def test_mistakes(choices, content, about):
    path = choices(content)
    with refused(path, *about):
        judge_choices(Reverser(longest_input=6), path)


def test_the_example_is_balanced_and_well_formed():
    """Both nouns are correct equally often, so that a fixed preference is right in only half of the cases."""
    rows = [line.split("\t") for line in EXAMPLE.read_text().splitlines()]
    assert Counter(row[3] for row in rows) == {"A": 5, "B": 5}
    feminine = ["elle" in row[1 + "AB".index(row[3])].replace("'", " ").split() for row in rows]
    assert sum(feminine) == 5
    assert judge_choices(Reverser(longest_input=100), str(EXAMPLE)).of == 10
