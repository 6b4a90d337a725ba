"""Choosing between two outputs with a model whose log-probability is minus the number of letters."""

from collections import Counter
from pathlib import Path

import pytest

from t2t.errors import UserError
from t2t.inference.files import choices as choices_module
from t2t.inference.files.choices import judge_choices

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
def test_the_shorter_is_chosen_and_none_of_two_that_are_equal(choices, reverser, monkeypatch, window):
    """Right in lines 1 and 2, wrong in 3 and 4, undecided in 5."""
    monkeypatch.setattr(choices_module, "WINDOW", window)
    judged = judge_choices(reverser, choices(LINES))
    assert (judged.right, judged.of, judged.ties) == (2, 5, 1)
    assert str(judged) == "accuracy 0.400 (2 of 5)"


def test_equal_ids_are_a_tie_however_they_are_rounded(choices, reverser, monkeypatch):
    monkeypatch.setattr(reverser, "encode_targets", lambda texts, *_: [[2] for _ in texts])  # unknown words
    monkeypatch.setattr(reverser, "score_ids", lambda sources, targets: [-1.0, -1.0000001][: len(targets)])
    judged = judge_choices(reverser, choices("s\ta\tb\tA\n"))
    assert (judged.right, judged.of, judged.ties) == (0, 1, 1)


def test_a_language_model_does_not_look_at_the_source(choices, reverser_class, monkeypatch):
    continuer = reverser_class(has_inputs=False)
    monkeypatch.setattr(continuer, "encode", lambda texts: pytest.fail("the source was looked at"))
    assert str(judge_choices(continuer, choices(LINES))) == "accuracy 0.400 (2 of 5)"


def test_what_is_exactly_the_longest_is_compared_whole(choices, reverser_class):
    reverser = reverser_class(longest_input=6)
    reverser.most_ids = "the 7 ids that max_input_length allows"
    judged = judge_choices(reverser, choices("123456\t1\t123456\tA\n1234567\t1\t2\tA\n"))
    assert judged.report.cut.first == [2]
    with pytest.raises(UserError, match=r"line 1: output B has 8 ids with end of sequence, more than the 7 ids that"):
        judge_choices(reverser, choices("s\t1\t1234567\tA\n"))


def test_a_language_code_behind_inputs_takes_no_room_from_outputs(choices, reverser_class):
    reverser = reverser_class(longest_input=5, longest_target=6)
    reverser.most_ids = "the 7 ids that max_input_length allows"
    judged = judge_choices(reverser, choices("123456\t1\t123456\tA\n"))
    assert (judged.right, judged.report.cut.first) == (1, [1])
    with pytest.raises(UserError, match=r"line 1: output B has 8 ids with end of sequence, more than the 7 ids that"):
        judge_choices(reverser, choices("s\t1\t1234567\tA\n"))


def test_what_is_cut_and_repaired_is_reported(choices, reverser_class):
    judged = judge_choices(
        reverser_class(longest_input=6), choices(b"s\ta\tbb\tA\nmuch too long\ta\x00\t\xff\xff\tA\n")
    )
    assert str(judged) == "accuracy 1.000 (2 of 2)"
    assert judged.report.warnings("the 7 ids that max_input_length allows") == [
        "cut to the 7 ids that max_input_length allows: 1 line (number 2)",
        "NUL characters removed in 1 line",
        "invalid UTF-8 replaced in 1 line",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it has no lines; a line needs source TAB output A TAB output B TAB A or B"),
        (
            "s\ta\tb\tA\ns\ta\tA\n",
            "line 2 has 3 columns; a line needs 4, source TAB output A TAB output B TAB A or B; correct the file",
        ),
        ("s\ta\tb\tC\n", "line 1 ends in 'C'; its last column says A or B"),
        ("s\ta\ta\tA\n", "line 1 has the same output twice; there is nothing to choose"),
        (
            "s\ta\tmuch too long\tA\n",
            "line 1: output B has 14 ids with end of sequence, more than the 7 ids that max_input_length allows; give "
            "a shorter one",
        ),
    ],
)
def test_mistakes(choices, reverser_class, monkeypatch, content, said):
    monkeypatch.setattr(reverser_class, "most_ids", "the 7 ids that max_input_length allows", raising=False)
    path = choices(content)
    with pytest.raises(UserError) as raised:
        judge_choices(reverser_class(longest_input=6), path)
    assert str(raised.value).removeprefix(f"{path}: ") == said


def test_the_example_is_balanced_and_well_formed(reverser_class):
    """Both nouns are correct equally often, so that a fixed preference is right in only half of the cases."""
    rows = [line.split("\t") for line in EXAMPLE.read_text().splitlines()]
    assert Counter(row[3] for row in rows) == {"A": 5, "B": 5}
    feminine = ["elle" in row[1 + "AB".index(row[3])].replace("'", " ").split() for row in rows]
    assert sum(feminine) == 5
    assert judge_choices(reverser_class(longest_input=100), str(EXAMPLE)).of == 10
