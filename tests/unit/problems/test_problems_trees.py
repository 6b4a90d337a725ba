"""Trees in Penn brackets: what is read, what is refused and how it is named, and that writing is reading's inverse."""

import gzip
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t.problems.treebank.trees import Malformed, Part, Tree, parse_tree, read_tree_file, read_trees, write_tree
from tests.errors import refused

DOG = "(S (NP (DT A) (NN dog)) (VP (VBZ runs)))"
DEPTH = 1500

atoms = st.text(st.characters(exclude_characters="() \t\r\n\f\v", exclude_categories=["Cs"]), min_size=1, max_size=4)
tags = st.builds(lambda tag, word: Tree(tag, (word,)), atoms, atoms)
trees = st.recursive(
    tags, lambda below: st.builds(Tree, atoms, st.lists(below, min_size=1, max_size=4).map(tuple)), max_leaves=12
)


def read(text):
    """Returns trees as one line of text, and malformed ones as error messages."""
    return [str(found) for found in read_trees(text.split("\n"), "f")]


def chain(depth, word="a"):
    tree = Tree("X", (word,))
    for _ in range(depth - 1):
        tree = Tree("X", (tree,))
    return tree


def test_a_tree_by_hand():
    tree = parse_tree(DOG)
    noun_phrase = Tree("NP", (Tree("DT", ("A",)), Tree("NN", ("dog",))))
    assert tree == Tree("S", (noun_phrase, Tree("VP", (Tree("VBZ", ("runs",)),))))
    assert tree.words() == ["A", "dog", "runs"]
    assert tree.tagged_words() == [("DT", "A"), ("NN", "dog"), ("VBZ", "runs")]
    assert not tree.is_tag
    assert tree.children[0].children[1].is_tag
    assert list(noun_phrase.walk()) == [
        (Part.OPEN, "NP"), (Part.OPEN, "DT"), (Part.WORD, "A"), (Part.CLOSE, "DT"),
        (Part.OPEN, "NN"), (Part.WORD, "dog"), (Part.CLOSE, "NN"), (Part.CLOSE, "NP"),
    ]  # fmt: skip
    assert repr(noun_phrase) == "<Tree (NP (DT A) (NN dog))>"


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
def test_reading_is_the_inverse_of_writing(many, between):
    text = between.join(map(write_tree, many))
    if between != "\n\n  ":
        assert list(read_trees(text.split("\n"), "f")) == many
    assert list(read_trees([text.replace("\n", " ")], "f")) == many


@given(trees)
@settings(max_examples=50)
def test_a_tree_over_many_lines_is_the_same_tree(tree):
    text = write_tree(Tree("", (tree,)))
    assert text.startswith("( (")
    assert list(read_trees(text.replace(" (", "\n  (").split("\n"), "f")) == [Tree("", (tree,))]


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


def test_a_lost_bracket_costs_one_tree_of_many():
    lines = [f"(S (NP (NN w{number})))" for number in range(1000)]
    lines[500] = lines[500][:-1]
    found = read("\n".join(lines))
    assert found[500].startswith("f:501: 1 ")
    assert found[:500] + found[501:] == lines[:500] + lines[501:]


def test_one_tree_is_one_tree():
    assert isinstance(parse_tree("(S (NP a)) (S (NP b))"), Malformed)
    assert all(isinstance(parse_tree(text), Malformed) for text in ("", "(S (NP a)"))


def test_depth_is_no_limit():
    tree = chain(DEPTH)
    text = write_tree(tree)
    assert text == "(X " * DEPTH + "a" + ")" * DEPTH
    assert parse_tree(text) == tree
    assert parse_tree(text) != chain(DEPTH, "b")
    assert len({tree, parse_tree(text)}) == 1
    assert tree.words() == ["a"]
    assert str(parse_tree(text[:-1])).startswith("text:1: 1 ")
    assert str(parse_tree("(X " * DEPTH)).startswith("text:1: 1,500 ")


@pytest.mark.parametrize(("tree", "name"), [
    (Tree("S", ()), "'S'"),
    (Tree("S", (Tree("NP", ("New York",)),)), "York'"),
    (Tree("S", (Tree("NP", (":-)",)),)), "':-)'"),
    *((tree, "''") for tree in (Tree("S", (Tree("", ("a",)),)), Tree("S", ("",)))),
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
