"""Two systems, and evaluations of one, compared: sacreBLEU, counts by hand, the words that came and went."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from t2t.checkpoints.dev_outputs import DevOutputs
from t2t.studio.comparisons import compare_systems, history_json, merged_changes, word_changes
from t2t.studio.run_answers import comparison_answer
from tests.errors import refused

REFERENCES = ["the cat sat on the mat", "a dog ran", "so it goes and goes and goes on for more than ten words"]
FIRST = ["the cat sat on the mat", "a cat ran", "so it is"]
SECOND = ["the dog sat on a mat", "a dog ran", "so it goes and goes"]


@pytest.mark.parametrize("shared", ["a", "w{}"], ids=["equal words", "different words"])
def test_texts_that_take_too_long_by_words_are_compared_as_wholes(shared):
    texts = [" ".join(f"{shared.format(n)} {own}{n}" for n in range(50_000)) for own in "xy"]
    assert word_changes(*texts) == ([(texts[0], True)], [(texts[1], True)])
    assert word_changes(f" {texts[0]}", texts[0]) == ([(texts[0], False)],) * 2
    assert merged_changes(*texts) == [(texts[0], "removed"), (texts[1], "added")]


def test_words_that_the_other_text_lacks_are_marked_also_in_prose_of_a_thousand_words():
    assert word_changes("a big red dog", "a dog barks") == (
        [("a", False), ("big red", True), ("dog", False)],
        [("a", False), ("dog", False), ("barks", True)],
    )
    assert word_changes("", "new words") == ([], [("new words", True)])
    assert word_changes("same here", "same here") == ([("same here", False)],) * 2
    ranks = range(1, 30_000)
    drawn = random.Random(1).choices(ranks, weights=[1 / rank for rank in ranks], k=1000)  # Zipf's law
    text = " ".join(map(str, drawn))
    assert word_changes(text, f"new {text}") == ([(text, False)], [("new", True), (text, False)])


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12).map(" ".join)


@given(WORDS, WORDS)
def test_marked_texts_are_the_texts_and_share_what_is_not_marked(first, second):
    marked = word_changes(first, second)
    for text, pieces in zip((first, second), marked, strict=True):
        assert " ".join(piece for piece, _ in pieces) == text
    common = [[piece for piece, own in pieces if not own] for pieces in marked]
    assert " ".join(common[0]) == " ".join(common[1])


def test_scores_are_sacrebleus_and_rows_of_lengths_are_bleu_of_their_lines():
    found = compare_systems(REFERENCES, FIRST, SECOND)
    bleu, chrf = BLEU(effective_order=True), CHRF()
    for line, one in enumerate(found["sentences"]):
        for place, system in enumerate((FIRST, SECOND)):
            assert one["bleu"][place] == pytest.approx(bleu.sentence_score(system[line], [REFERENCES[line]]).score)
            assert one["chrf"][place] == pytest.approx(chrf.sentence_score(system[line], [REFERENCES[line]]).score)
    values = {(score["metric"], score["system"]): score["value"] for score in found["scores"]}
    for name, system in (("first", FIRST), ("second", SECOND)):
        assert values["BLEU", name] == pytest.approx(BLEU().corpus_score(system, [REFERENCES]).score)
        assert values["chrF2", name] == pytest.approx(CHRF().corpus_score(system, [REFERENCES]).score)
    assert [score["p_value"] is None for score in found["scores"]] == [True, False, True, False]
    assert [(row["label"], row["count"]) for row in found["lengths"]] == [("1-10", 2), ("11-20", 1)]
    assert found["lengths"][0]["values"] == [
        pytest.approx(BLEU().corpus_score(system[:2], [REFERENCES[:2]]).score) for system in (FIRST, SECOND)
    ]


def test_rows_of_frequencies_are_f1_of_words_counted_by_hand():
    references = ["a a a a a rare", "b b a"]  # a six times, b twice, rare once
    first, second = ["a a rare rare", "b x"], ["a a a a a", "b b b a"]
    found = compare_systems(references, first, second)
    rows = {row["label"]: row for row in found["frequencies"]}
    assert {label: row["count"] for label, row in rows.items()} == {"1": 1, "2-4": 2, "over 4": 6}
    assert rows["1"]["values"] == [pytest.approx(200 * 1 / (2 + 1)), 0.0]
    assert rows["2-4"]["values"] == [pytest.approx(200 * 1 / (1 + 2)), pytest.approx(200 * 2 / (3 + 2))]
    assert rows["over 4"]["values"] == [pytest.approx(200 * 2 / (2 + 6)), 100.0]


def test_equal_systems_differ_by_chance_and_those_of_other_lines_are_refused():
    found = compare_systems(REFERENCES, FIRST, FIRST)
    assert [score["p_value"] for score in found["scores"] if score["system"] == "second"] == [1.0, 1.0]
    assert all(not own for one in found["sentences"] for pieces in one["outputs"] for _, own in pieces)
    with refused("comparison"):
        compare_systems(REFERENCES, FIRST[:2], SECOND)


@pytest.mark.parametrize(("language", "most", "about"), [("", 2, [3, 2]), (3, 3, ["language", 3])])
def test_what_cannot_be_compared_is_refused(language, most, about):
    asked = {"references": REFERENCES[:3], "first": FIRST[:3], "second": SECOND[:3], "language": language}
    with refused(*about):
        comparison_answer(None, asked, most)


# === How outputs changed from evaluation to evaluation: versions of each, with the words that came and went ===
SENTENCES = ("one two", "three"), ("eins zwei", "drei")


def evaluations(*outputs, sentences=SENTENCES):
    return [DevOutputs(10 * n, "", *sentences, tuple(texts)) for n, texts in enumerate(outputs, start=1)]


def test_equal_outputs_are_one_version_the_newest_first_and_other_sentences_are_left_out():
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
    others = evaluations(["z"], sentences=(("q",), ("q",)))
    found = history_json([*others, *evaluations(["a", "b"])], 9)
    assert found["steps"] == [10]
    assert history_json([], 9) == {"steps": [], "sentences": []}


def test_older_versions_are_counted_and_still_what_the_oldest_shown_is_compared_with():
    (sentence,) = history_json(evaluations(*[[f"v{n} same"] for n in range(6)], sentences=(None, ("r",))), 2)[
        "sentences"
    ]
    assert [one["first"] for one in sentence["outputs"]] == [60, 50]
    assert sentence["earlier"] == 4
    assert sentence["outputs"][1]["words"] == [("v3", "removed"), ("v4", "added"), ("same", "same")]
    assert sentence["source"] is None


@pytest.mark.parametrize(
    ("old", "new"), [("", ""), ("a", ""), ("", "a b"), ("a b c d", "b x d e"), ("a a a", "a a"), ("a b", "b a")]
)
def test_both_texts_are_in_what_is_merged(old, new):
    pieces = merged_changes(old, new)
    assert " ".join(text for text, kind in pieces if kind != "added") == old
    assert " ".join(text for text, kind in pieces if kind != "removed") == new
