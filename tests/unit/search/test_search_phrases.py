"""Searches with required phrases, forbidden phrases or a list of outputs, against enumeration. Legend: V vocabulary."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from search_tables import NODES, assert_ranked, node_log_probs, node_ranking, node_search, node_table

from t2t.search.beam_search import MOST_BANKS, places_by_bank
from t2t.search.constraints import BatchConstraints
from t2t.specs.constraints import ANYTHING, MOST_STATES, answers_constraint, phrase_constraint
from tests.errors import refused

V, EOS = 5, 1
ORDINARY = range(2, V)
LONGEST = 6
EVERY = list(itertools.chain.from_iterable(itertools.product(ORDINARY, repeat=n) for n in range(LONGEST + 1)))
"""All outputs without end of sequence."""

phrases = st.lists(st.lists(st.sampled_from(ORDINARY), min_size=1, max_size=3).map(tuple), max_size=3)
lists = st.lists(st.lists(st.sampled_from(ORDINARY), max_size=4).map(tuple), min_size=1, max_size=3)


def holds(ids, phrase):
    return any(ids[at : at + len(phrase)] == phrase for at in range(len(ids) - len(phrase) + 1))


def allowed(forced, forbidden, limit=LONGEST):
    """Returns the allowed outputs by definition, with end of sequence or cut off at the limit."""
    return [
        (*ids, EOS)[:limit]
        for ids in EVERY
        if len(ids) <= limit
        if all(holds(ids, phrase) for phrase in forced) and not any(holds(ids, phrase) for phrase in forbidden)
    ]


def wanted(forced=(), forbidden=(), answers=()):
    """Returns a constraint, and the function limit -> outputs that it allows by definition."""
    if answers:
        constraint = answers_constraint(answers)
        return constraint, lambda limit: [(*ids, EOS)[:limit] for ids in set(answers) if len(ids) <= limit]
    free = not forced and not forbidden
    constraint = ANYTHING if free else phrase_constraint(forced, forbidden, V)
    return constraint, lambda limit: allowed(forced, forbidden, limit)


SEARCHES = [
    {"beam_size": 2}, {"beam_size": 3, "only_best": False}, {"beam_size": 8}, {"method": "greedy"},
    {"method": "sample", "samples": 3}, {"method": "sample", "samples": 2, "top_k": 1},
]  # fmt: skip


sentences = st.one_of(st.tuples(phrases, phrases), st.tuples(st.just([]), st.just([]), lists))


@given(st.lists(sentences, min_size=1, max_size=4), st.integers(0, 20), st.sampled_from(SEARCHES))
@settings(max_examples=8, deadline=None)
def test_whatever_the_search_outputs_keep_to_the_constraint_of_their_sentence(sentences, seed, changes):
    sentences = [one for one in sentences if len(one) > 2 or allowed(*one)] or [((), ())]
    constraints, outputs = zip(*[wanted(*one) for one in sentences], strict=True)
    rows, shortest = node_table(V, seed), [constraint.shortest() for constraint in constraints]
    limits = [min(least + (n + seed) % 3, LONGEST) for n, least in enumerate(shortest)]
    results = node_search(rows, constraints, limits, **changes)
    for outputs_of, limit, found in zip(outputs, limits, results, strict=True):
        assert len(found) == changes.get("samples", len(found) or 1)
        assert {ids for _, _, ids in found} <= set(outputs_of(limit))
        for _, log_prob, ids in found:
            assert log_prob == pytest.approx(sum(node_log_probs(rows, ids)), rel=1e-4, abs=1e-5)


def test_a_wide_beam_ranks_them_as_enumeration_does():
    rows, limits = node_table(V, 1), [6, 6, 5, 4, 4, 4, 2]
    constraints, outputs = zip(
        wanted([(2, 3), (4,)]), wanted([(2, 2, 3)], [(3, 4), (4, 4)]), wanted((), [(2,)]), wanted(),
        *[wanted(answers=answers) for answers in ([(2, 3), (2, 3, 4), (4,)], [(3, 3, 3)], [(), (2,)])], strict=True,
    )  # fmt: skip
    found = node_search(rows, constraints, limits, beam_size=400, only_best=False)
    assert_ranked(found, [of(limit) for of, limit in zip(outputs, limits, strict=True)], rows)


def test_shared_out_beams_find_better_outputs_than_likeliest_ones():
    """The paper's claim: in a small beam with banks, phrases are placed where they fit, not only when room runs out."""
    with_banks = phrase_constraint([(2, 3, 4), (5, 6)], [], 30)
    without = dataclasses.replace(with_banks, rewards_progress=False)
    rows, starts = node_table(30, 1), np.arange(16) * 37
    ours, theirs = (
        np.array([found[0][0] for found in node_search(rows, [one] * 16, [14] * 16, starts=starts, beam_size=8)])
        for one in (with_banks, without)
    )
    assert np.mean(ours - theirs) > 1
    assert np.sum(ours > theirs) >= 12


@pytest.mark.parametrize("changes", [{"method": "greedy"}, {"method": "sample", "samples": 3}], ids=str)
def test_without_beams_what_is_missing_is_written_when_the_model_would_end(changes):
    rows = node_table(12, 5)
    rows[:, EOS] += 20
    rows -= np.logaddexp.reduce(rows, axis=1, keepdims=True)
    constraints = [phrase_constraint([(2, 3), (4,)], [], 12), phrase_constraint([], [(5,)], 12)]
    first, second = node_search(rows, constraints, [20, 20], **changes)
    assert {ids for _, _, ids in first} <= {(2, 3, 4, EOS), (4, 2, 3, EOS)}
    assert {ids for _, _, ids in second} == {(EOS,)}


def test_a_very_wide_beam_places_phrases():
    """Its candidates, 200 * (2 * 200 + 1), are so many that their number squared is no int32."""
    (found,) = node_search(node_table(410, 2), [phrase_constraint([(8, 9)], [], 410)], [3], beam_size=200)
    assert len(found) == 200
    assert all(holds(ids, (8, 9)) for _, _, ids in found)


@pytest.mark.parametrize("changes", [SEARCHES[n] for n in (1, 3, 4)], ids=str)
def test_a_list_beside_forced_phrases_is_searched_as_it_is_alone(changes):
    rows = node_table(9, 6)
    rows[:, EOS] += 20
    rows -= np.logaddexp.reduce(rows, axis=1, keepdims=True)
    answers = answers_constraint([(2, 3, 4, 5), (6, 7), (8,), (7, 2, 2)])
    starts = np.arange(9) * 37
    alone = node_search(rows, [answers] * 8, [7] * 8, starts=starts[:8], **changes)
    mixed = node_search(rows, [answers] * 8 + [phrase_constraint([(8, 3)], [], 9)], [7] * 9, starts=starts, **changes)
    assert [[ids for _, _, ids in found] for found in mixed[:8]] == [[ids for _, _, ids in found] for found in alone]


@pytest.mark.parametrize("beam_size", [3, 6])
def test_answers_that_begin_others_are_all_found_beside_forced_phrases(beam_size):
    """Complete candidates are then among the best, and fewer than the beam are open."""
    rows = node_table(9, 10)
    answers = [(2,), (2, 3), (2, 3, 4, 5)]
    constraints = [answers_constraint(answers), phrase_constraint([(8, 3)], [], 9)]
    found, _ = node_search(rows, constraints, [7, 7], beam_size=beam_size, only_best=False, alpha=0.0)
    expected = node_ranking(rows, [(*answer, EOS) for answer in answers], alpha=0.0)
    assert [ids for _, _, ids in found] == [ids for _, ids in expected]


@pytest.mark.parametrize("changes", [{"beam_size": 2}, {"method": "greedy"}], ids=str)
def test_forced_phrases_beside_long_lists_are_searched_as_they_are_alone(changes):
    rows = node_table(40, 7)
    avoid = phrase_constraint([], [(token,) for token in range(6, 36)], 40)
    both = phrase_constraint([(8, 3), (4,)], [(token,) for token in range(9, 39)], 40)
    sentences = [phrase_constraint([(8, 3), (9, 8, 8)], [], 40), both, avoid]
    mixed = node_search(rows, sentences, [6] * 3, starts=[0, 37, 74], **changes)
    alone = [node_search(rows, [one], [6], starts=[37 * n], **changes)[0] for n, one in enumerate(sentences[:2])]
    assert [[ids for _, _, ids in found] for found in mixed[:2]] == [[ids for _, _, ids in found] for found in alone]


def test_a_long_list_does_not_widen_the_table_of_phrases():
    """Every hypothesis is expanded by all of that table, whatever its sentence."""
    forced = phrase_constraint([(8, 3), (9, 8)], [], 500)
    avoid = phrase_constraint([(8, 3)], [(token,) for token in range(50, 450)], 500)
    answers = answers_constraint([(token, 2) for token in range(50, 450)])
    automaton = BatchConstraints.build([forced, answers, avoid], 500).automaton
    assert automaton.phrase_ids.shape[1] == max(map(len, forced.edges)) == 3
    assert automaton.edge_ids.shape[1] == 400
    assert BatchConstraints.build([forced], 500).automaton.edge_ids.shape[1] == 0


@pytest.mark.parametrize("constraints", [
    [phrase_constraint([(2, 3), (4,)], [(5, 2)], V), answers_constraint([(2, 3), (4, 4, 2)]), ANYTHING],
    [answers_constraint([(2, 3), (4, 4, 2)]), phrase_constraint([], [(3,)], V)],
], ids=["with banks", "without"])  # fmt: skip
def test_larger_tables_of_the_same_automaton_allow_the_same(constraints):
    plain = BatchConstraints.build(constraints, V).automaton
    edges, phrases = plain.edge_ids.shape[1], plain.phrase_ids.shape[1]
    larger = plain.padded(len(plain.ids_before_end) + 5, edges + 3, phrases and phrases + 2)
    count = len(plain.ids_before_end)
    assert [table.shape for table in larger[:3:2]] == [(count + 5, edges + 3), (count + 5, phrases and phrases + 2)]
    assert not np.asarray(larger.allowed(np.arange(count, count + 5)[:, None], np.full(5, 99), np.arange(V))).any()
    pairs = np.array(list(itertools.product(range(count), range(V))))
    np.testing.assert_array_equal(larger.advance(pairs[:, :1], pairs[:, 1]), plain.advance(pairs[:, :1], pairs[:, 1]))
    states = np.arange(count)[:, None]
    for room in range(1, 6):
        rooms = np.full(count, room)
        ours, theirs = (one.allowed(states, rooms, np.arange(V)) for one in (larger, plain))
        np.testing.assert_array_equal(ours, theirs)
    if phrases:
        np.testing.assert_array_equal(larger.nearer(states, np.arange(V)), plain.nearer(states, np.arange(V)))
        np.testing.assert_array_equal(larger.phrases(states).other_banks, plain.phrases(states).other_banks)
        np.testing.assert_array_equal(np.asarray(larger.phrases(states).ids)[:, phrases:], -1)


@pytest.mark.parametrize(("rule", "expected"), [
    ({}, (4, EOS)), ({"eos_penalty": 3.0}, (2, 2, 4, EOS)), ({"min_length": 2}, (2, 2, 4, EOS)),
    ({"min_length": 4}, (2, 2, 2, 2, 4, EOS)),
])  # fmt: skip
def test_where_the_model_would_end_is_judged_under_the_rules_on_the_end(rule, expected):
    """By hand: end of sequence leads 2 by a factor of e^2 for two ids, and by e^4 later; then 4 is what is missing."""
    rows = np.full((NODES, V), -9.0, np.float32)
    rows[:, [EOS, 2]] = -0.1, -4.1
    rows[[0, 2 + 1], 2] = -2.1
    (found,) = node_search(rows, [phrase_constraint([(4,)], [], V)], [8], method="greedy", **rule)
    ((_, _, ids),) = found
    assert ids == expected


@pytest.mark.parametrize("rule", [{"eos_penalty": 1.5}, {"min_length": 4}], ids=str)
def test_a_wide_beam_with_phrases_ranks_under_the_rules_on_the_end(rule):
    rows, penalty, least = node_table(V, 8), rule.get("eos_penalty", 0.0), rule.get("min_length", 0)
    wide = {"beam_size": 200, "only_best": False, "alpha": 0.0, **rule}
    (found,) = node_search(rows, [phrase_constraint([(2, 3)], [], V)], [5], **wide)
    outputs = [ids for ids in allowed([(2, 3)], [], 5) if ids[-1] != EOS or len(ids) > least]
    expected = sorted((sum(node_log_probs(rows, ids)) - penalty * (ids[-1] == EOS), ids) for ids in outputs)[::-1]
    assert [ids for _, _, ids in found] == [ids for _, ids in expected]


def test_banks_take_turns_by_hand():
    rows = [[-1, -2, -3, -4, -5, -1e9], [-1, -2, -3, -1e9, -1e9, -1e9], [-1e9, -2, -1e9, -4, -1e9, -6]]
    log_probs = np.array(rows, np.float32)
    needed = np.array([[3, 3, 3, 2, 1, 0], [500, 600, 2, 1, 1, 1], [0, 1, 0, 1, 0, 1]], np.int32)
    for expected in ([[0, 3, 4], [0, 1, 2], [1, 3, 5]], [[0, 1, 3, 4], [0, 1, 2, 3], [1, 3, 5, 0]]):
        found = places_by_bank(ops.convert_to_tensor(log_probs), ops.convert_to_tensor(needed), len(expected[0]))
        np.testing.assert_array_equal(found, expected)
    assert needed[1, :2].min() >= MOST_BANKS, "they share one, and there is room for both"


@given(phrases, phrases, st.lists(st.sampled_from(ORDINARY), max_size=3).map(tuple))
@settings(max_examples=50, deadline=None)
def test_the_shortest_output_with_a_prefix_is_that_of_the_list(forced, forbidden, prefix):
    lengths = [len(ids) for ids in allowed(forced, forbidden, LONGEST + 1) if ids[: len(prefix)] == prefix]
    shortest = phrase_constraint(forced, forbidden, V).shortest(prefix)
    assert min(lengths, default=None) == (None if shortest is None or shortest > LONGEST + 1 else shortest)


def test_a_long_repetitive_phrase_is_found_where_it_ends():
    """It is far longer than the interpreter's stack is deep, and so is the chain of its suffixes."""
    size = 1500
    constraint = phrase_constraint([(2,) * size + (3,)], [], V)
    assert constraint.shortest((2,) * (size + 5)) == size + 5 + 2, "3 and end of sequence are missing"
    assert constraint.shortest((2,) * (size - 1)) == size + 2
    assert constraint.shortest((2,) * (size - 1) + (4,)) == size + size + 2


@pytest.mark.parametrize("build", [answers_constraint, lambda texts: phrase_constraint([], texts, V)])
def test_lists_that_are_too_large_are_refused_before_they_are_read_to_the_end(build):
    def long():
        yield from itertools.islice(itertools.cycle(ORDINARY), 2 * MOST_STATES)
        pytest.fail("it is read to the end")

    with refused(f"{MOST_STATES:,}"):
        build([(2, 3), long()])
    with refused(f"{MOST_STATES:,}"):
        phrase_constraint([(2, n, 3) for n in range(20)], [], 99)
