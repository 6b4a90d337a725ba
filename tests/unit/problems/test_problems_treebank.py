"""Trees cleaned, converted to labels and back; any labels of a model give a tree over exactly the input's words."""

import hypothesis
import hypothesis.strategies as st
import pytest

from t2t.problems.treebank.cleaning import bare_label, cleaned, inner_phrases
from t2t.problems.treebank.linearisation import linearised, restored, words_of
from t2t.problems.treebank.trees import parse_tree, write_tree

DOG = "(TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs))))"
DOG_LABELS = "S NP DT NN /NP VP VBZ /VP /S"

PHRASES, TAGS, WORDS = (
    ("S", "NP", "VP", "PP", "SBAR"),
    ("DT", "NN", "VBZ", "-LRB-", ","),
    ("a", "dog", "-LRB-", "/", "x"),
)


@st.composite
def trees(draw, depth=4):
    """Text of a random tree, in which phrases and tags have different labels."""
    if depth == 0 or draw(st.booleans()):
        return f"({draw(st.sampled_from(TAGS))} {draw(st.sampled_from(WORDS))})"
    children = draw(st.lists(trees(depth=depth - 1), min_size=1, max_size=3))
    return f"({draw(st.sampled_from(PHRASES))} {' '.join(children)})"


# === Cleaning ===


@pytest.mark.parametrize(("label", "bare"), [
    ("NP", "NP"), ("NP-SBJ", "NP"), ("NP-SBJ-1", "NP"), ("S=2", "S"), ("PP-LOC=3", "PP"), ("-LRB-", "-LRB-"),
    ("-NONE-", "-NONE-"), ("", ""), (":", ":"), ("ADVP|PRT", "ADVP|PRT"), ("-", "-"),
])  # fmt: skip
def test_function_tags_and_indices_are_no_part_of_a_label(label, bare):
    assert bare_label(label) == bare


@pytest.mark.parametrize(("text", "clean"), [
    (
        "( (S (NP-SBJ-1 (DT A) (NN dog)) (VP (VBZ seems) (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VB run))))) )",
        "( (S (NP (DT A) (NN dog)) (VP (VBZ seems) (S (VP (TO to) (VB run))))))",
    ),
    ("(TOP (S (NP (-NONE- *)) (VP (VP (-NONE- *T*-1)))))", None),
    ("(TOP (NP-HLN (-LRB- -LRB-) (NN x)))", "(TOP (NP (-LRB- -LRB-) (NN x)))"),
])  # fmt: skip
def test_empty_elements_go_with_the_nodes_they_leave_bare(text, clean):
    found = cleaned(parse_tree(text))
    assert (found and write_tree(found)) == clean


# === In a row, and back ===


@pytest.mark.parametrize(("text", "labels"), [
    (DOG, DOG_LABELS),
    ("( (S (NP (DT A) (NN dog)) (VP (VBZ runs))) )", DOG_LABELS),
    ("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))", DOG_LABELS),
    ("(TOP (NP (NN a)) (. .))", "NP NN /NP ."),
    ("(ROOT (UH Yes))", "UH"),
    ("(TOP (NP (NP (NP (NN x)))))", "NP NP NP NN /NP /NP /NP"),
])  # fmt: skip
def test_labels_in_a_row_by_hand(text, labels):
    tree = parse_tree(text)
    assert linearised(tree) == labels
    back = restored(tree.words(), labels)
    assert not back.repaired
    assert inner_phrases(back.tree) == inner_phrases(tree)


@pytest.mark.parametrize(("labels", "repaired"), [
    ("S NP DT NN /NP VP VBZ", "(TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs))))"),  # brackets closed
    ("S NP DT NN VP VBZ /VP /S", "(TOP (S (NP (DT A) (NN dog) (VP (VBZ runs)))))"),
    ("S NP DT /NP /S", "(TOP (S (NP (DT A))) (XX dog) (XX runs))"),  # words added
    ("S NP DT", "(TOP (S (NP (DT A)) (XX dog) (XX runs)))"),
    ("S NP DT NN /NP VP VBZ RB /VP /S", "(TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs))))"),  # surplus dropped
    ("S NP DT NN /NP /PP VP VBZ /VP /S /S", "(TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs))))"),
    ("S NP DT NN /NP VP VBZ /VP NP /NP /S", "(TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs))))"),  # over no word
    ("", "(TOP (XX A) (XX dog) (XX runs))"),
    ("/ /S ( ) S(", "(TOP (/ A) (-LRB- dog) (S-LRB- runs))"),  # `)`, a mark too many
])  # fmt: skip
def test_what_is_amiss_is_repaired_and_said_to_be(labels, repaired):
    found = restored(["A", "dog", "runs"], labels, phrases=PHRASES)
    assert str(found) == repaired
    assert found.repaired


@pytest.mark.parametrize(("words", "labels", "tree"), [
    ("Yes , however , dogs run ?", "S UH , , NP NNS /NP VP VBP /VP . /S",
     "(TOP (S (UH Yes) (, ,) (XX however) (, ,) (NP (NNS dogs)) (VP (VBP run)) (. ?)))"),
    ("Dogs run !", "S NP NNS /NP VP VBP /VP", "(TOP (S (NP (NNS Dogs)) (VP (VBP run)) (. !)))"),
])  # fmt: skip
def test_a_missing_tag_moves_no_other_from_its_word_and_a_mark_has_its_own(words, labels, tree):
    found = restored(words.split(), labels, phrases=PHRASES)
    assert str(found) == tree
    assert found.repaired


def test_a_bracket_in_a_word_is_written_as_treebanks_do():
    assert words_of(" a  (b)\tc\u00a0d ") == ["a", "-LRB-b-RRB-", "c\u00a0d"]
    assert str(restored(words_of("("), "S NN /S")) == "(TOP (S (NN -LRB-)))"


@hypothesis.given(trees())
@hypothesis.settings(max_examples=50)
def test_labels_of_a_tree_come_back_as_it_was(text):
    tree = parse_tree(text)
    back = restored(tree.words(), linearised(tree), phrases=PHRASES)
    assert not back.repaired
    assert inner_phrases(back.tree) == inner_phrases(tree)


@hypothesis.given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
    st.lists(st.sampled_from((*PHRASES, *TAGS, *(f"/{label}" for label in PHRASES), "<unk>", "//", "(", ")"))),
)
def test_any_labels_give_a_tree_over_just_the_words(words, labels):
    text = str(restored(words, " ".join(labels), phrases=PHRASES))
    tree = parse_tree(text)
    assert tree.words() == words
    assert tree.label == "TOP"


@hypothesis.given(st.text(min_size=1), st.text())
@hypothesis.settings(max_examples=50)
def test_any_text_at_all_gives_a_tree(sentence, output):
    words = words_of(sentence)
    if words:
        assert parse_tree(str(restored(words, output))).words() == words
