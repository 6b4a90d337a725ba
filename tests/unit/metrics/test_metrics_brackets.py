"""Scores of parse trees by hand, and compared with brute-force counts of PARSEVAL; EVALB's parameter files."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t import metrics
from t2t.features.treebank_trees import Part, parse_tree
from t2t.metrics.brackets import (
    COLLINS,
    NEW,
    Parameters,
    bracket_f1,
    bracket_f1_gold_tags,
    bracket_totals,
    compare,
    get_parameters,
    read_parameters,
    with_gold_tags,
)
from t2t.metrics.brackets.compare import BracketCounts, Status
from tests.errors import refused

GOLD = "(TOP (S (NP (PRP I)) (VP (VBD saw) (NP (NP (DT a) (NN man)) (PP (IN with) (NP (NNS eyes)))))))"
TEST = "(TOP (S (NP (PRP I)) (VP (VBD saw) (NP (DT a) (NN man)) (PP (IN with) (NP (NNS eyes))))))"
NOTHING_DELETED = Parameters()
NAMES = [
    f"bracket_{name}"
    for name in ("f1", "f1_gold_tags", "precision", "recall", "exact_match", "crossing", "errors", "tagging_accuracy")
]


def counts(gold, test, parameters=COLLINS):
    found = compare(gold, test, parameters)
    assert found.status == Status.VALID, found.faults
    return found.counts


@pytest.mark.parametrize(("gold", "test", "parameters", "expected"), [
    # I saw a man with eyes. Gold: S 0-6, NP 0-1, VP 1-6, NP 2-6, NP 2-4, PP 4-6, NP 5-6; the test lacks NP 2-6.
    (GOLD, TEST, COLLINS, BracketCounts(6, gold_brackets=7, test_brackets=6, crossing=0, words=6, correct_tags=6)),
    (TEST, GOLD, COLLINS, BracketCounts(6, gold_brackets=6, test_brackets=7, crossing=0, words=6, correct_tags=6)),
    # function tags and indices do not count in labels of phrases, but in tags of words
    ("(S (NP-SBJ=2 (NN-X a)) (VP-1 (V b)))", "(S (NP (NN a)) (VP (V b)))", COLLINS, BracketCounts(3, 3, 3, 0, 2, 1)),
    # traces are removed, and with them brackets over traces only
    ("(S (NP (-NONE- *)) (VP (V b) (SBAR (-NONE- 0) (S (-NONE- *T*)))))", "(S (VP (V b)))", COLLINS,
     BracketCounts(2, 2, 2, 0, 1, 1)),
    # punctuation is removed from words, span lengths and tags
    ("(S (NP (N a) (, ,)) (VP (V b)) (. .))", "(S (NP (N a)) (, ,) (VP (V b) (. .)))", COLLINS,
     BracketCounts(3, 3, 3, 0, 2, 2)),
    ("(S (NP (N a) (, ,)) (VP (V b)))", "(S (NP (N a)) (, ,) (VP (V b)))", NOTHING_DELETED,
     BracketCounts(2, 3, 3, 0, 3, 3)),
    # ADVP and PRT are one label
    ("(S (V a) (PRT (R b)))", "(S (V a) (ADVP (R b)))", COLLINS, BracketCounts(2, 2, 2, 0, 2, 2)),
    ("(S (V a) (PRT (R b)))", "(S (V a) (ADVP (R b)))", NOTHING_DELETED, BracketCounts(1, 2, 2, 0, 2, 2)),
    # deleting a label deletes equivalent labels, too
    ("(S (A (X a)) (B (X b)))", "(S (X a) (X b))", Parameters(delete_labels=("A",), equal_labels=(("B", "A"),)),
     BracketCounts(1, 1, 1, 0, 2, 2)),
    # each bracket matches once
    ("(S (NP (NP (NP (N a)))))", "(S (NP (N a)))", COLLINS, BracketCounts(2, 4, 2, 0, 1, 1)),
    ("(S (NP (N a)))", "(S (NP (NP (NP (N a)))))", COLLINS, BracketCounts(2, 2, 4, 0, 1, 1)),
    # without labels, spans alone
    ("(S (A (X a)) (B (X b)))", "(T (C (X a)) (D (X b)))", COLLINS, BracketCounts(0, 3, 3, 0, 2, 2)),
    ("(S (A (X a)) (B (X b)))", "(T (C (X a)) (D (X b)))", Parameters(labeled=False), BracketCounts(3, 3, 3, 0, 2, 2)),
    # words that count as equal
    ("(S (A this))", "(S (A This))", Parameters(equal_words=(("This", "this"),)), BracketCounts(1, 1, 1, 0, 1, 1)),
    # a bracket that crosses two counts once; one that is crossed by two counts twice
    ("(S (A (X a) (X b)) (B (X c) (X d)))", "(S (X a) (C (X b) (X c)) (X d))", COLLINS,
     BracketCounts(1, 3, 2, 1, 4, 4)),
    ("(S (X a) (C (X b) (X c)) (X d))", "(S (A (X a) (X b)) (B (X c) (X d)))", COLLINS,
     BracketCounts(1, 2, 3, 2, 4, 4)),
    # the outer bracket without a label counts like any other
    ("((S (X a)))", "( (S (X a)))", COLLINS, BracketCounts(2, 2, 2, 0, 1, 1)),
])  # fmt: skip
def test_what_counts(gold, test, parameters, expected):
    assert counts(gold, test, parameters) == expected


POSSESSIVE = "(S (NP (NNS dogs) (POS ')) (NN food))", "(S (NP (NNS dogs)) ('' ') (NN food))"


@pytest.mark.parametrize(("gold", "test", "parameters", "expected"), [
    # The test takes the possessive for a closing quote: put back at place 1, it lengthens S but not NP, which ends
    # before it. S 0-3 matches, NP 0-2 against NP 0-1 does not; of three tags two are right.
    (*POSSESSIVE, NEW, BracketCounts(1, 2, 2, 0, 3, 2)),
    (*POSSESSIVE, COLLINS, ["Length unmatch (3|2)"]),
    # The other way round; brackets that open later move along.
    ("(S (NP (NNS dogs)) ('' ') (VP (VB eat)))", "(S (NP (NNS dogs)) (POS ') (VP (VB eat)))", NEW,
     BracketCounts(3, 3, 3, 0, 3, 2)),
    # Two of them, side by side.
    ("(S (`` ') (`` ') (A a))", "(S (NN ') (NN ') (A a))", NEW, BracketCounts(1, 1, 1, 0, 3, 1)),
    # If the numbers of words already agree, nothing is put back, since EVALB repairs nothing.
    ("(S (`` ') (A a) (POS ') (B (C b) (C c)))", "(S (NN ') (A a) ('' ') (B (C b)) (C c))", NEW,
     ["Words unmatch (a|')"]),
    ("(S (`` ') (A a) (POS '))", "(S (NN ') (A a) ('' '))", NEW, ["Words unmatch (a|')"]),
])  # fmt: skip
def test_a_quotation_mark_that_one_side_deletes_is_put_back(gold, test, parameters, expected):
    found = compare(gold, test, parameters)
    assert (found.counts if isinstance(expected, BracketCounts) else found.faults) == expected


@pytest.mark.parametrize(("gold", "test", "status", "faults"), [
    ("(S (A a))", "", Status.SKIPPED, []),
    ("(S (A a))", "(S (. .))", Status.SKIPPED, []),
    ("(S (A a))", "(S (A b))", Status.ERROR, ["Words unmatch (a|b)"]),
    ("(S (A a))", "(S (A a) (A b))", Status.ERROR, ["Length unmatch (1|2)"]),
    ("", "(S (A a))", Status.ERROR, ["Length unmatch (0|1)"]),
    ("(S (A a)", "(S (A a))", Status.ERROR, ["Bracketing is unbalanced (too many open bracket)"]),
    ("(S (A a))", "(S (A a)))", Status.ERROR, ["Bracketing is unbalanced (too many open bracket)"]),
    ("(S (A a))", "(S (A a))))", Status.ERROR, ["Bracketing unbalance (too many close bracket)",
                                                "Bracketing is unbalanced (too many open bracket)"]),
    ("(S (A a))", "(S (A a b))", Status.ERROR, ["More than two elements in a bracket", "Reading sentence"]),
    ("words", "", Status.ERROR, ["Reading sentence"]),
    ("(S (A a)", "(S (A b)", Status.ERROR, ["Bracketing is unbalanced (too many open bracket)"] * 2
                                           + ["Words unmatch (a|b)"]),
])  # fmt: skip
def test_sentences_that_cannot_be_scored(gold, test, status, faults):
    found = compare(gold, test, COLLINS)
    assert (found.status, found.faults) == (status, faults)
    assert (found.gold.stuck or found.test.stuck) == ("Reading sentence" in faults)


labels = st.sampled_from("ABC")


def tree_over(draw, words):
    """A random tree over words given with their tags."""
    label = draw(labels)
    if len(words) == 1:
        return f"({label} {words[0]})" if draw(st.booleans()) else words[0]
    cuts = sorted(draw(st.sets(st.integers(1, len(words) - 1), max_size=len(words) - 1)))
    if not cuts:
        return f"({label} {' '.join(words)})"
    parts = [words[start:end] for start, end in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    return f"({label} {' '.join(tree_over(draw, part) for part in parts)})"


@st.composite
def pairs_of_trees(draw):
    length = draw(st.integers(2, 8))
    gold, test = ([f"({draw(st.sampled_from('xyz'))} w{n})" for n in range(length)] for _ in range(2))
    return tree_over(draw, gold), tree_over(draw, test)


def spans(line):
    """(label, start, end) of each phrase."""
    found, open_nodes, words = [], [], 0
    for part, text in parse_tree(line).walk():
        if part is Part.OPEN:
            open_nodes.append((text, words))
        elif part is Part.WORD:
            words += 1
            open_nodes[-1] = None  # a tag
        elif (node := open_nodes.pop()) is not None:
            found.append((*node, words))
    return found


def crosses(one, other):
    mine, theirs = (set(range(start, end)) for _, start, end in (one, other))
    return bool(mine & theirs) and not mine <= theirs and not theirs <= mine


@given(pairs_of_trees())
def test_counts_are_those_of_parseval_by_brute_force(pair):
    gold, test = map(spans, pair)
    both = [parse_tree(line).tagged_words() for line in pair]
    assert counts(*pair, NOTHING_DELETED) == BracketCounts(
        matched=(Counter(gold) & Counter(test)).total(), gold_brackets=len(gold), test_brackets=len(test),
        crossing=sum(any(crosses(one, other) for other in gold) for one in test),
        words=len(both[0]), correct_tags=sum(one == other for one, other in zip(*both, strict=True)),
    )  # fmt: skip


def test_the_metrics_by_hand():
    # GOLD against TEST: 6 of 7 and 6 of 6. The second: S 0-3 and NP 2-3 of 4 and 3, NP 0-2 crosses VP 1-3, one tag of
    # three wrong. The third is skipped, the fourth in error. Together 8 of 11 and 8 of 9: F = 16/20.
    gold = [GOLD, "(S (NP (N x)) (VP (V y) (NP (N z))))", "(S (A a))", "(S (A a))"]
    test = [TEST, "(S (NP (N x) (N y)) (NP (N z)))", "", "(S (A b))"]
    scores = metrics.compute(NAMES, test, gold)
    assert [scores[name].value for name in NAMES] == pytest.approx(
        [80.0, 80.0, 100 * 8 / 9, 100 * 8 / 11, 0.0, 0.5, 50.0, 100 * 8 / 9]
    )
    sentences = "2 of 4 sentences, 1 in error, 1 skipped) | evalb|prm:COLLINS"
    assert str(scores["bracket_f1"]) == f"bracket_f1 = 80.00 (precision 88.89, recall 72.73; {sentences}"
    assert str(scores["bracket_crossing"]) == f"bracket_crossing = 0.50 ({sentences}"
    detail = scores["bracket_recall"].detail
    assert (detail["errors"], detail["skipped"], detail["sentences"], detail["gold_brackets"]) == (1, 1, 4, 11)
    for name, score in scores.items():
        assert score.higher_is_better == metrics.higher_is_better(name)


def test_settings_show_in_the_signature_and_nothing_is_kept_of_other_trees():
    assert bracket_f1([TEST], [GOLD], parameters=NEW).signature == "evalb|prm:new"
    own = bracket_f1([TEST], [GOLD], parameters=Parameters(labeled=False)).signature
    assert own not in ("evalb|prm:none", "evalb|prm:COLLINS")
    assert own == bracket_f1(["(S (A a))"], ["(S (A a))"], parameters=Parameters(labeled=False)).signature
    for test, value in ((GOLD, 100.0), (TEST, 100 * 12 / 13), (GOLD, 100.0)):
        assert bracket_f1([test], [GOLD]).value == pytest.approx(value)


def test_no_valid_sentence_gives_zeros_and_a_deep_tree_is_scored():
    assert math.isnan(bracket_totals([""], [GOLD]).f1)
    scores = metrics.compute(NAMES, [""], [GOLD])
    assert {name: score.value for name, score in scores.items() if score.value} == {"bracket_errors": 100.0}
    deep = "(X " * 10_000 + "(A a)" + ")" * 10_000
    assert counts("(S (A a))", deep) == BracketCounts(0, 1, 10_000, 0, 1, 1)


def test_with_gold_tags_every_sentence_counts():
    """Without gold tags, a comma tagged NN is an additional word: the sentence is an error and left out."""
    gold = "(TOP (S (NP (DT the) (NN dog)) (, ,) (VP (VBZ runs))))"
    wrong = "(TOP (S (NP (DT the) (NN dog)) (NN ,) (VP (VBZ runs))))"
    assert bracket_totals([wrong], [gold]).errors == 1
    assert bracket_f1([gold, wrong], [gold, gold]).detail["errors"] == 1
    found = bracket_f1_gold_tags([gold, wrong], [gold, gold])
    assert (found.value, found.detail["errors"], found.detail["sentences"]) == (100.0, 0, 2)
    flat = "(TOP (S (DT the) (JJ dog) (. ,) (VP (VBZ runs))))"  # 2 of 2 brackets, of 3
    assert bracket_f1_gold_tags([flat], [gold]).value == pytest.approx(80.0)


@pytest.mark.parametrize("hypothesis", ["(TOP (S (NN a)))", "(TOP (S (NN a) (NN c)))"])
def test_trees_over_other_words_keep_their_tags_and_are_errors(hypothesis):
    gold = "(TOP (S (NN a) (NN b)))"
    assert with_gold_tags(hypothesis, gold) == hypothesis
    assert bracket_f1_gold_tags([hypothesis], [gold]).detail["errors"] == 1


# === EVALB's parameter files: every keyword, and one line for each mistake ===
ALL = """\
## a comment of EVALB's kind ##
DEBUG 1
MAX_ERROR\t7
CUTOFF_LEN 25   \r

LABELED 0
 x
DELETE_LABEL TOP
DELETE_LABEL ''
DELETE_LABEL_FOR_LENGTH -NONE-
QUOTE_LABEL POS
EQ_LABEL ADVP   PRT
EQ_WORD  Example example
EQ_WORD a\tb
#DELETE_LABEL NP
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        (tmp_path / "own.prm").write_text(text, encoding="utf-8", newline="")
        return tmp_path / "own.prm"

    return write


def test_every_keyword(written):
    assert read_parameters(written(ALL)) == Parameters(
        debug=1, max_error=7, cutoff_length=25, labeled=False, delete_labels=("TOP", "''"),
        delete_labels_for_length=("-NONE-",), quote_labels=("POS",), equal_labels=(("ADVP", "PRT"),),
        equal_words=(("Example", "example"), ("a", "b")),
    )  # fmt: skip
    assert read_parameters(written("")) == Parameters() == get_parameters("none"), "EVALB without a file"
    assert (Parameters().max_error, Parameters().cutoff_length, Parameters().delete_labels) == (10, 40, ())


def test_built_in_settings_go_by_name_unless_a_file_has_it(written, monkeypatch, tmp_path):
    assert get_parameters("COLLINS") is COLLINS
    assert get_parameters("new") is NEW
    assert get_parameters(str(written("LABELED 0"))) == Parameters(labeled=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").write_text("CUTOFF_LEN 9\n")
    assert get_parameters("new") == Parameters(cutoff_length=9)
    for one, other in (("ADVP", "PRT"), ("PRT", "ADVP"), ("X", "X")):
        assert COLLINS.same_label(one, other)
    assert not COLLINS.same_label("ADVP", "NP")
    assert COLLINS.deletes_bracket("TOP")
    assert (COLLINS.deletes_bracket("S1"), NEW.deletes_bracket("S1")) == (False, True)


@pytest.mark.parametrize(("text", "about"), [
    ("DEBUG 0\nDELET_LABEL TOP", ["own.prm:2", "DELET_LABEL", "DELETE_LABEL", "DEBUG", "MAX_ERROR", "EQ_WORD"]),
    ("  DEBUG 0", ["own.prm:1", "DEBUG"]), ("\nDELETE_LABEL  \n", ["own.prm:2", "DELETE_LABEL"]),
    ("MAX_ERROR ten", ["own.prm:1", "MAX_ERROR", "'ten'"]),
    ("EQ_LABEL ADVP", ["own.prm:1", "EQ_LABEL", 1, "(ADVP)"]), ("EQ_WORD a b c", ["own.prm:1", "EQ_WORD", 3]),
])  # fmt: skip
def test_a_line_that_says_nothing_known(written, text, about):
    with refused(*about):
        read_parameters(written(text))


def test_a_file_that_is_not_there(tmp_path):
    for path, about in (("COLLIN.prm", "COLLINS new none"), (tmp_path / "own.prm", ""), (tmp_path, "")):
        with refused(path, *about.split()):
            get_parameters(str(path))
