"""Names of metrics, their selection, and teacher-forced metrics."""

import math

import pytest

from t2t import metrics
from t2t.errors import UnknownNameError, UserError
from t2t.metrics import Score, TokenSums
from tests.registrations import registered

OF_TEXT = [
    "accuracy_per_sequence",
    "bleu",
    "bracket_crossing",
    "bracket_errors",
    "bracket_exact_match",
    "bracket_f1",
    "bracket_f1_gold_tags",
    "bracket_precision",
    "bracket_recall",
    "bracket_tagging_accuracy",
    "cer",
    "chrf",
    "chrf_plus_plus",
    "f1_duplicate",
    "f1_equivalent",
    "gleu",
    "matthews",
    "pearson",
    "rouge_1_fscore",
    "rouge_2_fscore",
    "rouge_l_fscore",
    "sentence_bleu",
    "spearman",
    "ter",
    "wer",
]


def test_every_name_that_problems_declare_exists():
    assert metrics.metric_names() == sorted(
        [*OF_TEXT, "accuracy", "bits_per_dim", "loss", "neg_log_perplexity", "perplexity"]
    )


def test_text_metrics_are_those_that_decodes_can_have():
    assert [name for name in metrics.metric_names() if metrics.is_text_metric(name)] == OF_TEXT


def test_compute_keeps_the_order_asked_for():
    scores = metrics.compute(["chrf", "bleu", "accuracy_per_sequence"], ["a b c d", "e"], ["a b c d", "f"])
    assert list(scores) == ["chrf", "bleu", "accuracy_per_sequence"]
    assert scores["accuracy_per_sequence"].value == 0.5
    # 4 of 5 words, everything longer matches.
    assert scores["bleu"].value == pytest.approx(100 * 0.8**0.25)


def test_the_language_reaches_the_metrics_that_go_by_it():
    pairs = ["猫坐在垫子上面。"], ["猫坐在垫子上。"]
    scores = metrics.compute(["bleu", "chrf", "cer"], *pairs, "zh")
    assert scores["bleu"].value == metrics.METRICS.get("bleu")(*pairs, tokenize="zh").value > 0
    assert scores["chrf"] == metrics.METRICS.get("chrf")(*pairs)
    assert metrics.compute(["bleu"], *pairs)["bleu"].value == 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["blue"],
            r"metric 'blue' is not known; did you mean bleu or gleu\? there are accuracy, accuracy_per_sequence, ",
        ),
        (["accuracy"], r"metric 'accuracy' of decoded text: it is teacher-forced, .*; text has accuracy_per_sequence"),
    ],
)
def test_compute_refuses_what_text_cannot_give(names, message):
    with pytest.raises(UserError, match=message):
        metrics.compute(names, ["a"], ["a"])


def test_compute_looks_at_all_names_before_it_works():
    def never(hypotheses, references):
        raise AssertionError("computed before all names were checked")

    with registered(metrics.METRICS, "never", never), pytest.raises(UnknownNameError):
        metrics.compute(["never", "nonsense"], ["a"], ["a"])


@pytest.mark.parametrize("hypotheses", [["a"], []])
def test_compute_refuses_lines_that_do_not_pair_up(hypotheses):
    with pytest.raises(UserError, match="bleu of"):
        metrics.compute(["bleu"], hypotheses, ["a", "b"] if hypotheses else [])


@pytest.mark.parametrize(
    ("name", "higher"),
    [
        ("bleu", True),
        ("chrf", True),
        ("bracket_f1", True),
        ("bracket_f1_gold_tags", True),
        ("bracket_crossing", False),
        ("bracket_errors", False),
        ("accuracy", True),
        ("accuracy_per_sequence", True),
        ("neg_log_perplexity", True),
        ("loss", False),
        ("perplexity", False),
        ("teacher_forced/loss", False),
        ("teacher_forced/accuracy_per_sequence", True),
    ],
)
def test_which_way_is_better(name, higher):
    assert metrics.higher_is_better(name) is higher


def test_a_plugged_in_metric_says_which_way_is_better():
    @metrics.lower_is_better
    def blanks(hypotheses, references):
        """Number of empty lines."""
        return Score("blanks", sum(not line for line in hypotheses), higher_is_better=False)

    with registered(metrics.METRICS, "blanks", blanks):
        assert metrics.higher_is_better("blanks") is False
        assert metrics.compute(["blanks"], ["", "a"], ["a", "a"])["blanks"].value == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("perplexty", r"metric 'perplexty' is not known; did you mean perplexity"),
        ("teacher_forced/bleu", r"metric 'teacher_forced/bleu' is not known; .*there are teacher_forced/loss"),
    ],
)
def test_which_way_is_better_of_nothing(name, message):
    with pytest.raises(UnknownNameError, match=message):
        metrics.higher_is_better(name)


def test_teacher_forced_figures_by_hand():
    # Two sequences of 3 and 1 tokens; losses ln 2, ln 4, ln 8 and ln 4 sum to 8 ln 2, or 2 ln 2 for each of 4 tokens.
    sums = TokenSums(loss_sum=6 * math.log(2), tokens=3, correct=2, sequences=1, sequences_correct=0)
    sums += TokenSums(loss_sum=2 * math.log(2), tokens=1, correct=1, sequences=1, sequences_correct=1)
    assert metrics.teacher_forced(sums) == pytest.approx(
        {
            "teacher_forced/loss": 2 * math.log(2),
            "teacher_forced/perplexity": 4.0,
            "teacher_forced/neg_log_perplexity": -2 * math.log(2),
            "teacher_forced/accuracy": 0.75,
            "teacher_forced/accuracy_per_sequence": 0.5,
        }
    )


def test_bits_per_dimension_by_hand():
    """Two images of 3 intensities (end of sequence is no dimension): 12 bits for 6 of them; only if requested."""
    sums = TokenSums(loss_sum=12 * math.log(2), tokens=8, sequences=2)
    for named in ("bits_per_dim", "teacher_forced/bits_per_dim"):
        assert metrics.teacher_forced(sums, [named])["teacher_forced/bits_per_dim"] == pytest.approx(2.0)
    assert "teacher_forced/bits_per_dim" not in metrics.teacher_forced(sums, ["accuracy"])
    assert not metrics.higher_is_better("bits_per_dim")


def test_perplexity_beyond_floats_is_infinite():
    figures = metrics.teacher_forced(TokenSums(loss_sum=1e5, tokens=1, sequences=1))
    assert figures["teacher_forced/perplexity"] == math.inf


def test_figures_of_nothing():
    with pytest.raises(
        UserError, match="teacher-forced figures of 0 tokens in 0 sequences: there is nothing to average"
    ):
        metrics.teacher_forced(TokenSums())


def test_teacher_forced_figures_are_no_text_metrics():
    assert not metrics.is_text_metric("teacher_forced/loss")
    with pytest.raises(UnknownNameError, match="lss"):
        metrics.is_text_metric("teacher_forced/lss")


def test_a_metric_that_reads_inputs_is_given_them_and_refused_without():
    def copied(hypotheses, references, sources):
        """Fraction of outputs that are their input."""
        return Score("copied", sum(map(str.__eq__, hypotheses, sources)) / len(sources))

    with registered(metrics.METRICS, "copied", copied):
        pairs = ["a", "b"], ["a", "c"]
        assert metrics.compute(["copied"], *pairs, read_sources=lambda: ["a", "x"])["copied"].value == 0.5
        with pytest.raises(UserError, match="metric 'copied' reads inputs as text, and there are none here; choose"):
            metrics.compute(["copied"], *pairs)
        with pytest.raises(UserError, match="metric 'copied': 1 inputs for 2 references; each needs its own"):
            metrics.compute(["copied"], *pairs, read_sources=lambda: ["a"])
