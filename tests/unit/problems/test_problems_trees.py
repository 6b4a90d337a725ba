"""Trees in Penn brackets: what is read, what is refused and how it is named, and that writing is reading's inverse."""

import gzip
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import UserError
from t2t.problems.treebank.trees import (
    Malformed,
    Part,
    Tree,
    parse_tree,
    read_tree_file,
    read_trees,
    write_tree,
)

DOG = "(S (NP (DT A) (NN dog)) (VP (VBZ runs)))"
DEPTH = 10_000

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
def test_reading_is_the_inverse_of_writing(many, between):
    text = between.join(map(write_tree, many))
    if between != "\n\n  ":
        assert list(read_trees(text.split("\n"), "f")) == many
    assert list(read_trees([text.replace("\n", " ")], "f")) == many


@given(trees)
def test_a_tree_over_many_lines_is_the_same_tree(tree):
    text = write_tree(Tree("", (tree,)))
    assert text.startswith("( (")
    assert list(read_trees(text.replace(" (", "\n  (").split("\n"), "f")) == [Tree("", (tree,))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n\n", []),
        (f"{DOG}{DOG} {DOG}\n{DOG}", [DOG] * 4),
        ("( (S (NP x))\n)\n((S\t(NP\u00a0  y)))", ["( (S (NP x)))", "( (S (NP\u00a0 y)))"]),
        ("( S ( NP x ) )", ["(S (NP x))"]),
        ("(S\n(NP (DT a)\n(NN b))\n)\n(S (NP c))", ["(S (NP (DT a) (NN b)))", "(S (NP c))"]),
        ("(S (-LRB- -LRB-) (NP-SBJ=2 (-NONE- *T*-1)) (, ,) (`` ``))",
         ["(S (-LRB- -LRB-) (NP-SBJ=2 (-NONE- *T*-1)) (, ,) (`` ``))"]),
        ("(X ä)\r\n(X \u2028)", ["(X ä)", "(X \u2028)"]),
    ],
)  # fmt: skip
def test_what_is_read(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{DOG})\n{DOG}", ["f:1: more brackets close than were opened", DOG]),
        (f"{DOG}\n)) )\n{DOG}", ["f:1: more brackets close than were opened", DOG]),
        (f")\n){DOG}", ["f:1: a bracket closes that was not opened", DOG]),
        (f"{DOG}\n(S (NP (DT A)", [DOG, "f:2: 2 brackets are still open where the text ends"]),
        (f"\n(S (NP (DT A))\n{DOG}\n{DOG}", ["f:2: 1 bracket is still open where the next tree begins", DOG, DOG]),
        ("(S (NP a)\n(ROOT (S (NP b)))", ["f:1: 1 bracket is still open where the next tree begins",
                                          "(ROOT (S (NP b)))"]),
        ("((S (NP a))\n((S (NP b)))\n( (S (NP c)))", ["f:1: 1 bracket is still open where the next tree begins",
                                                      "( (S (NP b)))", "( (S (NP c)))"]),
        ("(S\n (NP a)\n (VP\n(S (NP b))", ["f:1: 2 brackets are still open where the next tree begins", "(S (NP b))"]),
        (f"a line of words\n{DOG} more words {DOG}",
         ["f:1: a is outside all brackets", DOG, "f:2: more is outside all brackets", DOG]),
        (f"(S (NP a b))\n{DOG}", ["f:1: word a under NP has no bracket of its own", DOG]),
        (f"(S (NP a) b)\n{DOG}", ["f:1: word b under S has no bracket of its own", DOG]),
        (f"(S (NP) (VP a))\n{DOG}", ["f:1: (NP) holds nothing", DOG]),
        (f"()\n( )\n{DOG}", ["f:1: () holds nothing", "f:2: () holds nothing", DOG]),
        (f"(S ((NP a)))\n{DOG}", ["f:1: a bracket inside the tree has no label", DOG]),
        (f"(S {'x' * 50} y)", [f"f:1: word {'x' * 40}... under S has no bracket of its own"]),
        (f"(S\n\n (NP) (VP a b)\n)\n{DOG}", ["f:1: (NP) holds nothing", DOG]),
    ],
)  # fmt: skip
def test_malformed_trees_are_named_and_the_next_one_is_read(text, expected):
    assert read(text) == expected


def test_a_lost_bracket_costs_one_tree_of_many():
    lines = [f"(S (NP (NN w{number})))" for number in range(1000)]
    lines[500] = lines[500][:-1]
    found = list(read_trees(lines, "wsj.mrg"))
    assert [str(one) for one in found if isinstance(one, Malformed)] == [
        "wsj.mrg:501: 1 bracket is still open where the next tree begins"
    ]
    assert [one.words() for one in found if isinstance(one, Tree)] == [
        [f"w{number}"] for number in range(1000) if number != 500
    ]


def test_one_tree_is_one_tree():
    assert parse_tree("(S (NP a)) (S (NP b))") == Malformed("text", 1, "2 trees where one should be")
    assert str(parse_tree("")) == "text:1: 0 trees where one should be"
    assert str(parse_tree("(S (NP a)")) == "text:1: 1 bracket is still open where the text ends"


def test_depth_is_no_limit():
    tree = chain(DEPTH)
    text = write_tree(tree)
    assert text == "(X " * DEPTH + "a" + ")" * DEPTH
    assert parse_tree(text) == tree
    assert parse_tree(text) != chain(DEPTH, "b")
    assert len({tree, parse_tree(text)}) == 1
    assert tree.words() == ["a"]
    assert str(parse_tree(text[:-1])) == "text:1: 1 bracket is still open where the text ends"
    assert str(parse_tree("(X " * DEPTH)) == "text:1: 10,000 brackets are still open where the text ends"


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (Tree("S", ()), "node 'S' has no children: it cannot be written in brackets"),
        (
            Tree("S", (Tree("NP", ("New York",)),)),
            "'New York' cannot be in brackets: labels and words hold no white",
        ),
        (Tree("S", (Tree("NP", (":-)",)),)), r"':-\)' cannot be in brackets"),
        (Tree("S", (Tree("", ("a",)),)), "'' cannot be in brackets"),
        (Tree("S", ("",)), "'' cannot be in brackets"),
    ],
)
def test_what_cannot_be_written(tree, message):
    with pytest.raises(ValueError, match=message):
        write_tree(tree)


def test_files_plain_or_gzip_with_damage_counted(tmp_path):
    content = f"{DOG}\n(S (NP caf\xe9)\n{DOG}\n".encode("latin-1")
    tally = Counter()
    (tmp_path / "a.mrg").write_bytes(content)
    (tmp_path / "b.mrg").write_bytes(gzip.compress(content))
    for name in ("a.mrg", "b.mrg"):
        found = list(read_tree_file(tmp_path / name, tally))
        assert [str(one) for one in found] == [
            DOG, f"{tmp_path / name}:2: 1 bracket is still open where the next tree begins", DOG,
        ]  # fmt: skip
    assert tally == {"invalid UTF-8 replaced": 2}
    with pytest.raises(UserError, match=r"c\.mrg: there is no such file; check the path"):
        list(read_tree_file(tmp_path / "c.mrg", tally))
