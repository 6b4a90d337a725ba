"""Searches of trees over given numbers of words, against enumeration of all trees. Legend: V vocabulary."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from search_tables import assert_ranked, node_log_probs, node_search, node_table

from t2t.features.treebank_linearisation import restored
from t2t.search.automata import TreeAutomaton, first_states
from t2t.specs.constraints import MAX_DEPTH, TreeConstraint, TreeLabels

PIECES = ("<pad>", "</s>", "<unk>", "NN", "NP", "/NP", "DT", "VP", "/VP")
LABELS = TreeLabels(tags=(3, 6), phrases=((4, 5), (7, 8)))
V, EOS = len(PIECES), 1


@functools.cache
def forests(words, longest):
    """Returns all label sequences of trees over `words` words, with at most `longest` ids, without end of sequence."""
    found = {()} if not words else set()
    for first, below in trees(words, longest):
        found |= {(*first, *others) for others in forests(words - below, longest - len(first))}
    return frozenset(found)


def trees(most_words, longest):
    """Yields (ids, number of words) of all tags, and of phrases over 1 to `most_words` words."""
    if longest < 1 or not most_words:
        return
    yield from (((tag,), 1) for tag in LABELS.tags)
    for words, (begin, end) in itertools.product(range(1, most_words + 1), LABELS.phrases):
        for inside in forests(words, longest - 2) if longest > 2 else ():
            yield (begin, *inside, end), words


def outputs(words, limit):
    return {(*ids, EOS) for ids in forests(words, limit - 1)}


def searched(rows, words, limits, prefixes=None, **changes):
    return node_search(rows, [TreeConstraint(LABELS, count) for count in words], limits, prefixes, **changes)


@pytest.mark.parametrize(("words", "longest"), [(1, 5), (2, 5), (3, 5)])
def test_the_lists_are_those_of_outputs_that_need_no_repairs(words, longest):
    """The reference is the conversion of labels back to trees, which the searches do not use."""

    def is_whole(ids):
        text = " ".join(PIECES[token] for token in ids)
        return not restored(["w"] * words, text, {"NP", "VP"}).repaired

    labels = range(3, V)
    every = itertools.chain.from_iterable(itertools.product(labels, repeat=n) for n in range(1, longest + 1))
    assert forests(words, longest) == set(filter(is_whole, every))


def test_a_wide_beam_ranks_trees_as_enumeration_does():
    rows, words, limits = node_table(V, 1), [1, 2, 2, 3, 3], [6, 3, 7, 4, 6]
    expected = [outputs(count, limit) for count, limit in zip(words, limits, strict=True)]
    assert_ranked(searched(rows, words, limits, beam_size=400, only_best=False), expected, rows)
    best = [found[:1] for found in searched(rows, words, limits, beam_size=400)]
    assert_ranked(best, expected, rows, most=1)


@given(
    st.integers(0, 10**6),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=3),
    st.sampled_from([
        {"beam_size": 2}, {"beam_size": 3, "only_best": False}, {"beam_size": 30, "eos_penalty": 0.5},
        {"beam_size": 2, "min_length": 5}, {"method": "greedy"}, {"method": "sample", "samples": 3},
        {"method": "sample", "samples": 2, "top_k": 1}, {"method": "sample", "samples": 2, "top_p": 0.5},
    ]),
)  # fmt: skip
@settings(max_examples=8, deadline=None)
def test_whatever_the_search_it_gives_trees_and_always_one(seed, sizes, changes):
    """Also if the limit leaves room only for the words; log-probabilities are those of the model."""
    rows, words = node_table(V, seed % 20), [count for count, _ in sizes]
    limits = [count + 1 + more for count, more in sizes]
    for sentence, found in enumerate(searched(rows, words, limits, **changes)):
        assert len(found) == changes.get("samples", len(found) or 1)
        allowed = outputs(words[sentence], limits[sentence])
        for _, log_prob, ids in found:
            assert ids in allowed
            assert log_prob == pytest.approx(sum(node_log_probs(rows, ids)), rel=1e-4, abs=1e-5)


def test_greedy_search_takes_the_likeliest_label_that_can_still_become_a_tree():
    rows, words, limits = node_table(V, 5), [2, 3, 4], [7, 6, 7]
    for sentence, ((_, _, found),) in enumerate(searched(rows, words, limits, method="greedy", alpha=0.0)):
        allowed = outputs(words[sentence], limits[sentence])
        for length in range(len(found)):
            after = {ids[length] for ids in allowed if ids[:length] == found[:length]}
            log_probs = {token: node_log_probs(rows, (*found[:length], token))[-1] for token in after}
            assert found[length] == max(log_probs, key=log_probs.__getitem__)


def test_a_prefix_is_gone_on_with_to_a_tree():
    rows, prefix = node_table(V, 6), np.array([[4, 3, 0], [7, 4, 6]], np.int32)
    whole = searched(rows, [2, 2], [7, 7], np.repeat(prefix, 60, axis=0), beam_size=60, only_best=False)
    for begin, found in zip(((4, 3), (7, 4, 6)), whole, strict=True):
        expected = {ids for ids in outputs(2, 7) if ids[: len(begin)] == begin}
        assert {ids for _, _, ids in found} == expected
        for _, log_prob, ids in found:
            assert log_prob == pytest.approx(sum(node_log_probs(rows, ids)[len(begin) :]), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("words", [0, 1, 2])
def test_the_shortest_output_with_a_prefix_is_that_of_the_list(words):
    constraint, limit = TreeConstraint(LABELS, words), 7
    allowed = outputs(words, limit)
    for prefix in itertools.chain.from_iterable(itertools.product(range(3, V), repeat=n) for n in range(4)):
        lengths = [len(ids) for ids in allowed if ids[: len(prefix)] == prefix]
        shortest = constraint.shortest(prefix)
        assert min(lengths, default=None) == (None if shortest is None or shortest > limit else shortest)
    assert constraint.fitted(2) == TreeConstraint(LABELS, min(words, 1))


def test_phrases_are_only_so_deep():
    automaton = TreeAutomaton.of_labels(LABELS, V)
    states = ops.convert_to_tensor(first_states(np.array([1, 1], np.int32)))
    for depth in range(MAX_DEPTH + 1):
        rooms = ops.convert_to_tensor([999, 2 * depth + 4 - depth])
        allowed = np.asarray(automaton.allowed(states, rooms, ops.arange(V)))
        assert allowed[0, 4] == allowed[0, 7] == (depth < MAX_DEPTH)
        assert allowed[1, 4] == (depth < MAX_DEPTH), "the end of each, that of another, a tag, end of sequence"
        if depth < MAX_DEPTH:
            states = automaton.advance(states, ops.convert_to_tensor([4, 4]))
    assert TreeConstraint(LABELS, 1).shortest([4] * MAX_DEPTH) == 2 * MAX_DEPTH + 2
    assert TreeConstraint(LABELS, 1).shortest([4] * (MAX_DEPTH + 1)) is None
