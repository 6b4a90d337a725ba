"""Trees in brackets: read, written, cleaned, as labels in a row and back; which word a tag belongs to."""

import functools
import gzip
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t.features.treebank_linearisation import is_mark, linearised, restored, tag_of_mark, word_indices, words_of
from t2t.features.treebank_trees import (
    Malformed,
    ParseTree,
    Part,
    bare_label,
    cleaned,
    inner_phrases,
    parse_tree,
    read_tree_file,
    read_trees,
    write_tree,
)
from tests.errors import refused

DOG = "(S (NP (DT A) (NN dog)) (VP (VBZ runs)))"
DEPTH = 1500

atoms = st.text(st.characters(exclude_characters="() \t\r\n\f\v", exclude_categories=["Cs"]), min_size=1, max_size=4)
tags = st.builds(lambda tag, word: ParseTree(tag, (word,)), atoms, atoms)
trees = st.recursive(
    tags, lambda below: st.builds(ParseTree, atoms, st.lists(below, min_size=1, max_size=4).map(tuple)), max_leaves=12
)


def read(text):
    """Returns trees as one line of text, and malformed ones as error messages."""
    return [str(found) for found in read_trees(text.split("\n"), "f")]


def test_a_tree_by_hand():
    tree = parse_tree(DOG)
    noun_phrase = ParseTree("NP", (ParseTree("DT", ("A",)), ParseTree("NN", ("dog",))))
    assert tree == ParseTree("S", (noun_phrase, ParseTree("VP", (ParseTree("VBZ", ("runs",)),))))
    assert tree.words() == ["A", "dog", "runs"]
    assert tree.tagged_words() == [("DT", "A"), ("NN", "dog"), ("VBZ", "runs")]
    assert not tree.is_tag
    assert tree.children[0].children[1].is_tag
    assert list(noun_phrase.walk()) == [
        (Part.OPEN, "NP"), (Part.OPEN, "DT"), (Part.WORD, "A"), (Part.CLOSE, "DT"),
        (Part.OPEN, "NN"), (Part.WORD, "dog"), (Part.CLOSE, "NN"), (Part.CLOSE, "NP"),
    ]  # fmt: skip
    assert repr(noun_phrase) == "<ParseTree (NP (DT A) (NN dog))>"
    for text in ("(S (NP a)) (S (NP b))", "", "(S (NP a)"):
        assert isinstance(parse_tree(text), Malformed)


@pytest.mark.parametrize(
    ("one", "other"), [("(A b)", "(A c)"), ("(A b)", "(B b)"), ("(A (B c))", "(A (B c) (B c))"), ("(A (B c))", "(A c)")]
)
def test_trees_are_equal_that_are_written_alike(one, other):
    assert parse_tree(one) == parse_tree(one)
    assert hash(parse_tree(one)) == hash(parse_tree(one))
    assert parse_tree(one) != parse_tree(other)
    assert parse_tree(one) != one


@given(st.lists(trees, max_size=4), st.sampled_from(["\n", " ", "", "\n\n  "]))
@settings(max_examples=50)
def test_reading_is_the_inverse_of_writing_also_of_trees_over_many_lines(many, between):
    text = between.join(map(write_tree, many))
    if between != "\n\n  ":
        assert list(read_trees(text.split("\n"), "f")) == many
    assert list(read_trees([text.replace("\n", " ")], "f")) == many
    outer = [ParseTree("", (tree,)) for tree in many]
    lines = "\n".join(map(write_tree, outer)).replace(" (", "\n  (").split("\n")
    assert list(read_trees(lines, "f")) == outer


@pytest.mark.parametrize(("text", "expected"), [
    ("", []),
    (" \t\n\n", []),
    (f"{DOG}{DOG} {DOG}\n{DOG}", [DOG] * 4),
    ("( (S (NP x))\n)\n((S\t(NP\u00a0  y)))", ["( (S (NP x)))", "( (S (NP\u00a0 y)))"]),
    ("( S ( NP x ) )", ["(S (NP x))"]),
    ("(S\n(NP (DT a)\n(NN b))\n)\n(S (NP c))", ["(S (NP (DT a) (NN b)))", "(S (NP c))"]),
    ("(S (-LRB- -LRB-) (NP-SBJ=2 (-NONE- *T*-1)) (, ,) (`` ``))",
     ["(S (-LRB- -LRB-) (NP-SBJ=2 (-NONE- *T*-1)) (, ,) (`` ``))"]),
    ("(X ä)\r\n(X \u2028)", ["(X ä)", "(X \u2028)"]),
])  # fmt: skip
def test_what_is_read(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(("text", "expected"), [
    (f"{DOG})\n{DOG}", ["f:1: close opened", DOG]),
    (f"{DOG}\n)) )\n{DOG}", ["f:1: close opened", DOG]),
    (f")\n){DOG}", ["f:1: closes opened", DOG]),
    (f"{DOG}\n(S (NP (DT A)", [DOG, "f:2: 2 open"]),
    (f"\n(S (NP (DT A))\n{DOG}\n{DOG}", ["f:2: 1 open", DOG, DOG]),
    ("(S (NP a)\n(ROOT (S (NP b)))", ["f:1: 1 open", "(ROOT (S (NP b)))"]),
    ("((S (NP a))\n((S (NP b)))\n( (S (NP c)))", ["f:1: 1 open", "( (S (NP b)))", "( (S (NP c)))"]),
    ("(S\n (NP a)\n (VP\n(S (NP b))", ["f:1: 2 open", "(S (NP b))"]),
    (f"a line of words\n{DOG} more words {DOG}", ["f:1: a outside", DOG, "f:2: more outside", DOG]),
    (f"(S (NP a b))\n{DOG}", ["f:1: a NP", DOG]),
    (f"(S (NP a) b)\n{DOG}", ["f:1: b S", DOG]),
    (f"(S (NP) (VP a))\n{DOG}", ["f:1: (NP) nothing", DOG]),
    (f"()\n( )\n{DOG}", ["f:1: () nothing", "f:2: () nothing", DOG]),
    (f"(S ((NP a)))\n{DOG}", ["f:1: label", DOG]),
    (f"(S {'x' * 50} y)", [f"f:1: {'x' * 40}... S"]),
    (f"(S\n\n (NP) (VP a b)\n)\n{DOG}", ["f:1: (NP) nothing", DOG]),
])  # fmt: skip
def test_malformed_trees_are_named_and_the_next_one_is_read(text, expected):
    found = read(text)
    assert [text for text in found if text[0] == "("] == [text for text in expected if text[0] == "("]
    for text, names in zip(found, expected, strict=True):
        assert all(name in text for name in names.split())


def test_depth_is_no_limit():
    tree, other = ParseTree("X", ("a",)), ParseTree("X", ("b",))
    for _ in range(DEPTH - 1):
        tree, other = ParseTree("X", (tree,)), ParseTree("X", (other,))
    text = write_tree(tree)
    assert text == "(X " * DEPTH + "a" + ")" * DEPTH
    assert parse_tree(text) == tree
    assert parse_tree(text) != other
    assert len({tree, parse_tree(text)}) == 1
    assert tree.words() == ["a"]
    assert str(parse_tree(text[:-1])).startswith("text:1: 1 ")
    assert str(parse_tree("(X " * DEPTH)).startswith("text:1: 1,500 ")


@pytest.mark.parametrize(("tree", "name"), [
    (ParseTree("S", ()), "'S'"),
    (ParseTree("S", (ParseTree("NP", ("New York",)),)), "York'"),
    (ParseTree("S", (ParseTree("NP", (":-)",)),)), "':-)'"),
    *((tree, "''") for tree in (ParseTree("S", (ParseTree("", ("a",)),)), ParseTree("S", ("",)))),
])  # fmt: skip
def test_what_cannot_be_written(tree, name):
    with refused(name, by=ValueError):
        write_tree(tree)


def test_files_plain_or_gzip_with_damage_counted(tmp_path):
    content = f"{DOG}\n(S (NP caf\xe9)\n{DOG}\n".encode("latin-1")
    tally = Counter()
    (tmp_path / "a.mrg").write_bytes(content)
    (tmp_path / "b.mrg").write_bytes(gzip.compress(content))
    for name in ("a.mrg", "b.mrg"):
        first, malformed, last = map(str, read_tree_file(tmp_path / name, tally))
        assert (first, last) == (DOG, DOG)
        assert malformed.startswith(f"{tmp_path / name}:2: 1 ")
    assert tally == {"invalid UTF-8 replaced": 2}
    with refused(tmp_path / "c.mrg"):
        list(read_tree_file(tmp_path / "c.mrg", tally))


# === Cleaned, in a row and back ===
SHORT_DOG = "(TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs))))"
DOG_LABELS = "S NP DT NN /NP VP VBZ /VP /S"

PHRASES, TAGS, WORDS = (
    ("S", "NP", "VP", "PP", "SBAR"),
    ("DT", "NN", "VBZ", "-LRB-", ","),
    ("a", "dog", "-LRB-", "/", "x"),
)


@st.composite
def clean_trees(draw, depth=4):
    """Text of a random tree, in which phrases and tags have different labels."""
    if depth == 0 or draw(st.booleans()):
        return f"({draw(st.sampled_from(TAGS))} {draw(st.sampled_from(WORDS))})"
    children = draw(st.lists(clean_trees(depth=depth - 1), min_size=1, max_size=3))
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
    (SHORT_DOG, DOG_LABELS),
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
    assert words_of(" a  (b)\tc\u00a0d \u3000e") == ["a", "-LRB-b-RRB-", "c\u00a0d", "e"]
    assert str(restored(words_of("("), "S NN /S")) == "(TOP (S (NN -LRB-)))"


@given(clean_trees())
@settings(max_examples=50)
def test_labels_of_a_tree_come_back_as_it_was(text):
    tree = parse_tree(text)
    back = restored(tree.words(), linearised(tree), phrases=PHRASES)
    assert not back.repaired
    assert inner_phrases(back.tree) == inner_phrases(tree)


@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
    st.lists(st.sampled_from((*PHRASES, *TAGS, *(f"/{label}" for label in PHRASES), "<unk>", "//", "(", ")"))),
)
def test_any_labels_give_a_tree_over_just_the_words(words, labels):
    text = str(restored(words, " ".join(labels), phrases=PHRASES))
    tree = parse_tree(text)
    assert tree.words() == words
    assert tree.label == "TOP"


@given(st.text(min_size=1), st.text())
@settings(max_examples=50)
def test_any_text_at_all_gives_a_tree(sentence, output):
    words = words_of(sentence)
    if words:
        assert parse_tree(str(restored(words, output))).words() == words


# === Which word a tag belongs to: by hand, and against trying every way ===
SIDE = st.lists(st.sampled_from(["a", "b", ",", "."]), max_size=6)


def test_marks_and_their_tags_are_the_penn_treebanks_and_very_many_are_taken_in_order():
    assert [text for text in [",", ".", "''", "--", "-LRB-", "-RCB-", "(", "$", "…"] if not is_mark(text)] == []
    assert [text for text in ["a", "7", "wild-type", "NN", "-NONE-", "HYPH", "é"] if is_mark(text)] == []
    assert [tag_of_mark(word) for word in ["?", ";", ",", "-LRB-", "dog"]] == [".", ":", ",", "-LRB-", None]
    assert word_indices(["NN"] * 1001, ["a"] * 1000) == [*range(1000), None]


@pytest.mark.parametrize(("tags", "words", "found"), [
    ("DT NN , , VBD .", "The dog , however , ran .", [0, 1, 2, 4, 5, 6]),
    ("DT NN NN , RB , VBD .", "The dog , however , ran .", [0, 1, None, 2, 3, 4, 5, 6]),
    ("DT NN", "The dog ran", [0, 1]),
    ("DT NN VBD RB", "The dog ran", [0, 1, 2, None]),
    (", NN", "The dog", [0, 1]),  # as many tags as words go in order, whatever they are
    ("", "The dog", []),
    ("DT", "", [None]),
    ("CD HYPH", "5 - HT", [0, 1]),  # a tag of marks, though it has letters
    ("CD SYM", "5 - HT", [0, 2]),  # `-` alone costs 1; `-` with SYM, and HT alone, 2
])  # fmt: skip
def test_places_by_hand(tags, words, found):
    assert word_indices(tags.split(), words.split()) == found


def cost_of(found, tags, words):
    """Returns the cost of an alignment: words without tag, tags without word, punctuation aligned with none."""
    pairs = [(tag, words[place]) for tag, place in zip(tags, found, strict=True) if place is not None]
    unlike = sum(is_mark(tag) != is_mark(word) for tag, word in pairs)
    return len(words) - len(pairs) + len(tags) - len(pairs) + unlike


def least_cost(tags, words):
    """Returns the least cost of all alignments, by brute force."""

    @functools.cache
    def from_here(tag, word):
        if tag == len(tags) or word == len(words):
            return len(tags) - tag + len(words) - word
        return min(
            from_here(tag + 1, word + 1) + (is_mark(tags[tag]) != is_mark(words[word])),
            from_here(tag + 1, word) + 1,
            from_here(tag, word + 1) + 1,
        )

    return from_here(0, 0)


@given(SIDE, SIDE)
def test_places_rise_and_leave_out_least(tags, words):
    found = word_indices(tags, words)
    taken = [place for place in found if place is not None]
    assert taken == sorted(set(taken))
    assert all(0 <= place < len(words) for place in taken)
    if len(tags) != len(words):
        assert cost_of(found, tags, words) == least_cost(tags, words)
