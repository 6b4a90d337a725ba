"""The comparison of two systems, checked against sacreBLEU, counts by hand, and the input texts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from t2t.serving.insight.run_answers import comparison_answer
from t2t.serving.insight.system_comparison import compare_systems
from t2t.serving.insight.word_changes import merged_changes, word_changes
from tests.errors import refused

REFERENCES = ["the cat sat on the mat", "a dog ran", "so it goes and goes and goes on for more than ten words"]
FIRST = ["the cat sat on the mat", "a cat ran", "so it is"]
SECOND = ["the dog sat on a mat", "a dog ran", "so it goes and goes"]


def test_words_that_the_other_text_lacks_are_marked():
    assert word_changes("a big red dog", "a dog barks") == (
        [("a", False), ("big red", True), ("dog", False)],
        [("a", False), ("dog", False), ("barks", True)],
    )
    assert word_changes("", "new words") == ([], [("new words", True)])
    assert word_changes("same here", "same here") == ([("same here", False)],) * 2


@pytest.mark.parametrize("shared", ["a", "w{}"], ids=["equal words", "different words"])
def test_texts_that_take_too_long_by_words_are_compared_as_wholes(shared):
    texts = [" ".join(f"{shared.format(n)} {own}{n}" for n in range(50_000)) for own in "xy"]
    assert word_changes(*texts) == ([(texts[0], True)], [(texts[1], True)])
    assert word_changes(f" {texts[0]}", texts[0]) == ([(texts[0], False)],) * 2
    assert merged_changes(*texts) == [(texts[0], "removed"), (texts[1], "added")]


def test_prose_of_a_thousand_words_is_compared_by_words():
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


def test_equal_systems_differ_by_chance():
    found = compare_systems(REFERENCES, FIRST, FIRST)
    assert [score["p_value"] for score in found["scores"] if score["system"] == "second"] == [1.0, 1.0]
    assert all(not own for one in found["sentences"] for pieces in one["outputs"] for _, own in pieces)


@pytest.mark.parametrize(("language", "most", "about"), [("", 2, [3, 2]), (3, 3, ["language", 3])])
def test_what_cannot_be_compared_is_refused(language, most, about):
    asked = {"references": REFERENCES[:3], "first": FIRST[:3], "second": SECOND[:3], "language": language}
    with refused(*about):
        comparison_answer(None, asked, most)


def test_unequal_numbers_of_lines_are_refused():
    with refused("comparison"):
        compare_systems(REFERENCES, FIRST[:2], SECOND)
