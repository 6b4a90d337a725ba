"""Choosing between two outputs with a model whose log-probability is minus the number of letters."""

from collections import Counter
from pathlib import Path

import pytest

from t2t.inference.files.choices import judge_choices
from tests.errors import refused
from tests.reverser import Reverser

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
