"""How outputs changed from evaluation to evaluation: versions of each, with the words that came and went."""

import pytest
from sacrebleu.metrics import CHRF

from t2t.checkpoints.dev_outputs import DevOutputs
from t2t.serving.insight.output_history import history_json
from t2t.serving.insight.word_changes import merged_changes

SENTENCES = ("one two", "three"), ("eins zwei", "drei")


def evaluations(*outputs, sentences=SENTENCES):
    return [DevOutputs(10 * n, "", *sentences, tuple(texts)) for n, texts in enumerate(outputs, start=1)]


def test_equal_outputs_are_one_version_and_the_newest_comes_first():
    found = history_json(evaluations(["a b", "x"], ["a b", "y"], ["a c", "y"], ["a b", "y"]), 9)
    assert found["steps"] == [10, 20, 30, 40]
    first, second = found["sentences"]
    assert (first["source"], first["reference"]) == ("one two", "eins zwei")
    assert [(one["first"], one["last"]) for one in first["outputs"]] == [(40, 40), (30, 30), (10, 20)]
    assert [(one["first"], one["last"]) for one in second["outputs"]] == [(20, 40), (10, 10)]
    assert [one["words"] for one in first["outputs"]] == [
        [("a", "same"), ("c", "removed"), ("b", "added")],
        [("a", "same"), ("b", "removed"), ("c", "added")],
        [("a b", "same")],
    ]
    expected = CHRF().sentence_score("a c", ["eins zwei"]).score
    assert first["outputs"][1]["chrf"] == pytest.approx(expected)


def test_older_versions_are_counted_and_still_what_the_oldest_shown_is_compared_with():
    (sentence,) = history_json(evaluations(*[[f"v{n} same"] for n in range(6)], sentences=(None, ("r",))), 2)[
        "sentences"
    ]
    assert [one["first"] for one in sentence["outputs"]] == [60, 50]
    assert sentence["earlier"] == 4
    assert sentence["outputs"][1]["words"] == [("v3", "removed"), ("v4", "added"), ("same", "same")]
    assert sentence["source"] is None


def test_evaluations_of_other_sentences_are_left_out():
    others = evaluations(["z"], sentences=(("q",), ("q",)))
    found = history_json([*others, *evaluations(["a", "b"])], 9)
    assert found["steps"] == [10]
    assert history_json([], 9) == {"steps": [], "sentences": []}


@pytest.mark.parametrize(
    ("old", "new"), [("", ""), ("a", ""), ("", "a b"), ("a b c d", "b x d e"), ("a a a", "a a"), ("a b", "b a")]
)
def test_both_texts_are_in_what_is_merged(old, new):
    pieces = merged_changes(old, new)
    assert " ".join(text for text, kind in pieces if kind != "added") == old
    assert " ".join(text for text, kind in pieces if kind != "removed") == new
