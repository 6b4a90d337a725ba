"""Names of metrics, their selection, what all of them refuse, and teacher-forced metrics."""

import math

import pytest

import t2t
from t2t import metrics
from t2t.errors import UnknownNameError
from t2t.metrics import Score, TokenSums
from tests.errors import refused
from tests.registrations import registered

OF_TEXT = [
    "accuracy_per_sequence", "bleu", "bracket_crossing", "bracket_errors", "bracket_exact_match", "bracket_f1",
    "bracket_f1_gold_tags", "bracket_precision", "bracket_recall", "bracket_tagging_accuracy", "cer", "chrf",
    "chrf_plus_plus", "f1_duplicate", "f1_equivalent", "gleu", "matthews", "pearson", "rouge_1_fscore",
    "rouge_2_fscore", "rouge_l_fscore", "sentence_bleu", "spearman", "ter", "wer",
]  # fmt: skip
TEACHER_FORCED = ["accuracy", "bits_per_dim", "loss", "neg_log_perplexity", "perplexity"]
LOWER_IS_BETTER = {"bracket_crossing", "bracket_errors", "cer", "ter", "wer", "bits_per_dim", "loss", "perplexity"}


def test_every_name_that_problems_declare_exists_and_says_which_way_is_better():
    names = metrics.metric_names()
    assert names == sorted([*OF_TEXT, *TEACHER_FORCED])
    assert [name for name in names if metrics.is_text_metric(name)] == OF_TEXT
    assert {name for name in names if not metrics.higher_is_better(name)} == LOWER_IS_BETTER
    for name in TEACHER_FORCED:
        assert metrics.higher_is_better(f"teacher_forced/{name}") == metrics.higher_is_better(name)
        assert not metrics.is_text_metric(f"teacher_forced/{name}")
    assert metrics.higher_is_better("teacher_forced/accuracy_per_sequence")


@pytest.mark.parametrize("name", OF_TEXT)
def test_lines_must_pair_up_and_there_must_be_some(name):
    for compute in (lambda *lines: metrics.compute([name], *lines), metrics.METRICS.get(name)):
        with refused(name.removesuffix("_plus_plus"), 1, 2):
            compute(["a"], ["a", "b"])
        with refused(name.removesuffix("_plus_plus")):
            compute([], [])


def test_compute_keeps_the_order_asked_for_and_the_language_reaches_the_metrics_that_go_by_it():
    scores = metrics.compute(["chrf", "bleu", "accuracy_per_sequence"], ["a b c d", "e"], ["a b c d", "f"])
    assert list(scores) == ["chrf", "bleu", "accuracy_per_sequence"]
    assert scores["accuracy_per_sequence"].value == 0.5
    # 4 of 5 words, everything longer matches.
    assert scores["bleu"].value == pytest.approx(100 * 0.8**0.25)
    pairs = ["猫坐在垫子上面。"], ["猫坐在垫子上。"]
    scores = metrics.compute(["bleu", "chrf", "cer"], *pairs, "zh")
    assert scores["bleu"].value == metrics.METRICS.get("bleu")(*pairs, tokenize="zh").value > 0
    assert scores["chrf"] == metrics.METRICS.get("chrf")(*pairs)
    assert metrics.compute(["bleu"], *pairs)["bleu"].value == 0


@pytest.mark.parametrize(("call", "name", "others"), [
    (lambda name: metrics.compute([name], ["a"], ["a"]), "blue", ["bleu", "gleu", "accuracy_per_sequence"]),
    (lambda name: metrics.compute([name], ["a"], ["a"]), "accuracy", ["accuracy_per_sequence"]),
    (metrics.higher_is_better, "perplexty", ["perplexity"]),
    (metrics.higher_is_better, "teacher_forced/bleu", ["teacher_forced/loss"]),
    (metrics.is_text_metric, "teacher_forced/lss", ["loss"]),
])  # fmt: skip
def test_other_names_are_refused_with_those_that_there_are(call, name, others):
    with refused(name, *others):
        call(name)


def test_compute_looks_at_all_names_before_it_works():
    def never(hypotheses, references):
        raise AssertionError("computed before all names were checked")

    with registered(metrics.METRICS, "never", never), refused("nonsense", by=UnknownNameError):
        metrics.compute(["never", "nonsense"], ["a"], ["a"])


@pytest.mark.parametrize("score_says", [True, False])
def test_a_plugged_in_metric_says_which_way_is_better_and_its_scores_the_same(score_says):
    def blanks(hypotheses, references):
        """Number of empty lines."""
        return Score("blanks", sum(not line for line in hypotheses), higher_is_better=score_says)

    if not score_says:  # which is asked before there is a score
        with (
            registered(metrics.METRICS, "blanks", blanks),
            refused("blanks", "higher_is_better=False", "lower_is_better"),
        ):
            metrics.compute(["blanks"], ["", "a"], ["a", "a"])
    with registered(metrics.METRICS, "blanks", t2t.lower_is_better(blanks)):
        assert metrics.higher_is_better("blanks") is False
        score = metrics.compute(["blanks"], ["", "a"], ["a", "a"])["blanks"]
        assert (score.value, score.higher_is_better) == (1, False)


def test_a_metric_that_reads_inputs_is_given_them_and_refused_without():
    def copied(hypotheses, references, sources):
        """Fraction of outputs that are their input."""
        return Score("copied", sum(map(str.__eq__, hypotheses, sources)) / len(sources))

    with registered(metrics.METRICS, "copied", copied):
        pairs = ["a", "b"], ["a", "c"]
        assert metrics.compute(["copied"], *pairs, read_sources=lambda: ["a", "x"])["copied"].value == 0.5
        with refused("copied"):
            metrics.compute(["copied"], *pairs)
        with refused("copied", 1, 2):
            metrics.compute(["copied"], *pairs, read_sources=lambda: ["a"])


def test_teacher_forced_figures_by_hand():
    # Two sequences of 3 and 1 tokens; losses ln 2, ln 4, ln 8 and ln 4 sum to 8 ln 2, or 2 ln 2 for each of 4 tokens.
    sums = TokenSums(loss_sum=6 * math.log(2), tokens=3, correct=2, sequences=1, sequences_correct=0)
    sums += TokenSums(loss_sum=2 * math.log(2), tokens=1, correct=1, sequences=1, sequences_correct=1)
    expected = {
        "loss": 2 * math.log(2), "perplexity": 4.0, "neg_log_perplexity": -2 * math.log(2), "accuracy": 0.75,
        "accuracy_per_sequence": 0.5,
    }  # fmt: skip
    found = metrics.teacher_forced(sums)
    assert found == pytest.approx({f"teacher_forced/{name}": value for name, value in expected.items()})
    figures = metrics.teacher_forced(TokenSums(loss_sum=1e5, tokens=1, sequences=1))
    assert figures["teacher_forced/perplexity"] == math.inf, "beyond floats"
    with refused(0):
        metrics.teacher_forced(TokenSums())
    # Two images of 3 intensities (end of sequence is no dimension): 12 bits for 6 of them; only if requested.
    sums = TokenSums(loss_sum=12 * math.log(2), tokens=8, sequences=2)
    for named in ("bits_per_dim", "teacher_forced/bits_per_dim"):
        assert metrics.teacher_forced(sums, [named])["teacher_forced/bits_per_dim"] == pytest.approx(2.0)
    assert "teacher_forced/bits_per_dim" not in metrics.teacher_forced(sums, ["accuracy"])
