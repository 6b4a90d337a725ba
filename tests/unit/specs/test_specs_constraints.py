"""Constraints on outputs as plain data, against all outputs of up to five ids of a vocabulary of three."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from t2t.specs import EOS_ID
from t2t.specs.constraints import ANYTHING, DEAD, TreeConstraint, TreeLabels, answers_constraint, phrase_constraint

IDS = (2, 3, 4)
OUTPUTS = [ids for length in range(6) for ids in itertools.product(IDS, repeat=length)]

phrases = st.lists(st.lists(st.sampled_from(IDS), min_size=1, max_size=3).map(tuple), max_size=2)


def accepts(constraint, ids):
    state = 0
    for token in ids:
        state = constraint.edges[state].get(token, constraint.defaults[state])
        if state == DEAD:
            return False
    return state in constraint.final


def holds(ids, phrase):
    return any(ids[first : first + len(phrase)] == phrase for first in range(len(ids)))


@given(phrases, phrases)
@example([], [(2, 3, 4), (3,)])
@example([(2, 3), (3, 2)], [])
@example([(2, 2, 2, 3), (2, 3)], [])
def test_outputs_with_all_forced_phrases_and_no_forbidden_one_are_accepted(forced, forbidden):
    constraint = phrase_constraint(forced, forbidden, max(IDS) + 1)
    expected = [ids for ids in OUTPUTS if all(holds(ids, one) for one in forced)]
    expected = [ids for ids in expected if not any(holds(ids, one) for one in forbidden)]
    assert [ids for ids in OUTPUTS if accepts(constraint, ids)] == expected
    if expected:  # with the end of sequence
        assert constraint.shortest() == 1 + min(map(len, expected))


@pytest.mark.parametrize("answers", [[()], [(2,), (2, 3), (4, 4, 2)]])
def test_an_output_is_one_of_the_answers(answers):
    constraint = answers_constraint(answers)
    assert [ids for ids in OUTPUTS if accepts(constraint, ids)] == sorted(answers, key=len)
    assert constraint.shortest(answers[-1]) == len(answers[-1]) + 1
    assert constraint.shortest((3,)) is None
    assert all(accepts(ANYTHING, ids) for ids in OUTPUTS)


def test_trees_have_no_empty_phrase_and_leave_room_for_the_end():
    tree = TreeConstraint(TreeLabels(tags=(2,), phrases=((3, 4),)), words=1)
    assert tree.shortest() == len([3, 2, 4, EOS_ID]) - 2, "a word needs no phrase"
    found = {ids: tree.shortest(ids) for ids in ((3,), (3, 2), (2, 3), (2, 4), (3, 4), (3, 2, 4), (2, 2))}
    assert found == {(3,): 4, (3, 2): 4, (2, 3): None, (2, 4): None, (3, 4): None, (3, 2, 4): 4, (2, 2): None}
    assert [tree.fitted(longest).words for longest in (1, 2, 9)] == [0, 1, 1]
