"""The tree of a beam against the search itself, by hand and by brute force."""

import numpy as np
import pytest

from t2t.inference.beam_trace import FINISHED, KEPT, PRUNED, STOPPED, alternatives, beam_tree
from t2t.models.transformer_encoder import TransformerEncoder
from tests.errors import refused
from tests.letters import WORDS, log_probs_by_hand, moods, sharing, translator_of

SOURCE = "a b c"


@pytest.fixture(scope="module")
def translator(ending_translator):
    return sharing(ending_translator, extra_length=3)


@pytest.fixture(scope="module")
def tree(translator):
    return beam_tree(translator, SOURCE)


def ids_of(text):
    return [*WORDS.encode(text), 1]


def test_the_best_of_the_tree_is_what_is_translated(translator, tree):
    (best,) = translator.translate([SOURCE])[0]
    (first,) = [node for node in tree if node.rank == 1]
    assert (first.ids, first.state) == (best.ids, FINISHED)
    assert first.log_prob == pytest.approx(best.log_prob, rel=1e-5)
    assert first.score == pytest.approx(best.score, rel=1e-5)


def test_every_node_has_the_probability_of_its_ids_and_stands_after_its_parent(translator, tree):
    places = {node.ids: place for place, node in enumerate(tree)}
    assert len(places) == len(tree)
    for place, node in enumerate(tree):
        assert len(node.ids) == 1 or places[node.ids[:-1]] < place
        expected = log_probs_by_hand(translator, list(node.ids), ids_of(SOURCE)).sum()
        assert node.log_prob == pytest.approx(expected, rel=1e-4)


def test_no_step_holds_more_than_the_beam_and_what_ends_says_when(tree):
    children = {node.ids[:-1] for node in tree}
    steps = max(len(node.ids) for node in tree)
    for length in range(1, steps + 1):
        assert sum(len(node.ids) == length and node.state != FINISHED for node in tree) <= 3
    for node in tree:
        if node.state == KEPT:
            assert node.ids in children
        elif node.state == FINISHED:
            assert node.step == len(node.ids)
            assert node.ids[-1] == 1 or node.step == len(ids_of(SOURCE)) + 3
        else:
            assert node.ids not in children
            assert node.step == (steps if node.state == STOPPED else min(len(node.ids) + 1, steps))
    assert {node.state for node in tree} >= {KEPT, FINISHED}


def test_what_is_pruned_is_not_among_the_best_of_its_step(translator):
    """By brute force: the best continuations of all kept prefixes, except ended ones, are kept in the next step."""
    tree = beam_tree(translator, SOURCE, beam_size=2)
    held = {(): 0.0}
    for length in (1, 2):
        grown = {}
        for ids, log_prob in held.items():
            for token, more in alternatives(translator, SOURCE, ids, 100):
                if token != 1:
                    grown[(*ids, token)] = log_prob + more
        best = sorted(grown, key=grown.get)[-2:]
        found = {node.ids: node for node in tree if len(node.ids) == length and node.state != FINISHED}
        assert set(found) == set(best)
        for ids in held:
            if ids and not any(one[:-1] == ids for one in best):
                (node,) = [node for node in tree if node.ids == ids]
                assert (node.state, node.step) == (PRUNED, length)
        held = {ids: grown[ids] for ids in best}


def test_a_forced_beginning_is_kept_and_costs_what_the_model_gives_it(translator):
    start = WORDS.encode("h h")
    tree = beam_tree(translator, SOURCE, start)
    assert [node.ids for node in tree[:2]] == [(start[0],), tuple(start)]
    for node in tree:
        assert node.ids[:2] == tuple(start)[: len(node.ids)]
        expected = log_probs_by_hand(translator, list(node.ids), ids_of(SOURCE)).sum()
        assert node.log_prob == pytest.approx(expected, rel=1e-4)
        if node.state == FINISHED:
            assert node.score == pytest.approx(expected / ((5 + len(node.ids)) / 6) ** 0.6, rel=1e-4)


@pytest.mark.slow
def test_the_best_after_a_forced_beginning_has_the_score_of_its_whole_text(translator):
    """By brute force over all continuations: the best output has the best score including its prefix."""
    translator = sharing(translator, extra_length=0)
    start, source = WORDS.encode("d d"), "a b c"
    ranked = sorted((node for node in beam_tree(translator, source, start, beam_size=10) if node.rank),
                    key=lambda node: node.rank)  # fmt: skip
    ended = [node for node in ranked if node.ids[-1] == 1]
    texts = [WORDS.decode(node.ids) for node in ended]
    assert [node.log_prob for node in ended] == pytest.approx(translator.score([(source, t) for t in texts]), rel=1e-4)
    tails = [[*start, 1]]
    tails += [[*start, a, b] for a in range(2, WORDS.vocab_size) for b in range(1, WORDS.vocab_size)]
    scores = {
        tuple(ids): log_probs_by_hand(translator, ids, ids_of(source)).sum() / ((5 + len(ids)) / 6) ** 0.6
        for ids in tails
    }
    assert ranked[0].ids == max(scores, key=scores.get)
    assert [node.score for node in ranked] == sorted((node.score for node in ranked), reverse=True)


def test_a_language_model_is_given_its_beginning_and_pays_for_what_is_forced(continuer):
    tree = beam_tree(continuer, "a b", WORDS.encode("c"))
    for node in tree:
        by_hand = log_probs_by_hand(continuer, list(node.ids))
        assert node.log_prob == pytest.approx(by_hand[2:].sum(), rel=1e-4, abs=1e-6)


def test_alternatives_are_the_softmax_after_the_beginning(translator):
    start = WORDS.encode("d")
    found = alternatives(translator, SOURCE, start, 3)
    every = {
        token: log_probs_by_hand(translator, [*start, token], ids_of(SOURCE))[-1]
        for token in range(1, WORDS.vocab_size)
    }
    best = sorted(every, key=every.get, reverse=True)[:3]
    assert [token for token, _ in found] == best
    np.testing.assert_allclose([value for _, value in found], [every[token] for token in best], rtol=1e-4)
    assert len(alternatives(translator, SOURCE, (), 1000)) == WORDS.vocab_size - 1


def test_a_language_model_goes_on_from_text_and_ids(continuer):
    found = alternatives(continuer, "a", WORDS.encode("b"), 1)
    assert found == alternatives(continuer, "a b", (), 1)
    tree = beam_tree(continuer, "a", WORDS.encode("b"))
    assert tree[0].ids == tuple(WORDS.encode("a"))
    (best,) = continuer.translate(["a b"])[0]
    assert [node.ids for node in tree if node.rank == 1] == [best.ids]


@pytest.mark.parametrize(
    ("prefix", "changes", "about"),
    [
        *[((wrong,), {}, [wrong, 2, 10]) for wrong in (1, 99, 11, 0)],
        *[((3,) * count, {}, [count, 1023]) for count in (5000, 1023)],
        ((), {"beam_size": 1}, ["decode_method=beam"]),
    ],
)
def test_what_has_no_tree_is_refused(translator, prefix, changes, about):
    with refused(*about):
        beam_tree(translator, SOURCE, prefix, **changes)


def test_classes_have_no_alternatives_to_a_piece():
    with refused("TransformerEncoder", "classes"):
        alternatives(translator_of(moods(), TransformerEncoder), SOURCE, (), 3)
