"""What is seen of a search: its partial outputs, and the tree of a beam."""

import numpy as np
import pytest

from t2t.inference.fallback import FallbackEngine
from t2t.inference.hypothesis import NOTHING
from t2t.inference.search_steps import (
    FINISHED,
    KEPT,
    PRUNED,
    STOPPED,
    alternatives,
    beam_tree,
    has_partial_outputs,
    partial_outputs,
)
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.problems.base import Finished
from t2t.text.byte import ByteEncoder
from tests.errors import refused
from tests.letters import TEXTS, WORDS, Letters, letters, log_probs_by_hand, moods, sharing, translator_of

# === Partial outputs are prefixes of the output of `translate` ===

SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4},
    "two best": {"beam_size": 4, "n_best": 2},
    "sample": {"decode_method": "sample", "seed": 5},
    "three samples": {"decode_method": "sample", "seed": 6, "n_best": 3, "sampling_temperature": 2.0},
}


@pytest.fixture(scope="module")
def models(continuer):
    """A byte-level translator, whose random outputs are rarely valid UTF-8, and others."""
    bytewise = Letters().with_encoders(dict.fromkeys(("inputs", "targets"), ByteEncoder()))
    return {"letters": translator_of(letters()), "bytes": translator_of(bytewise), "alone": continuer}


def searches(**quick):
    """Yields all searches of each model for the slow tests, and those named in `quick` for the default tests."""
    for model in ("letters", "bytes", "alone"):
        if model in quick:
            yield pytest.param(model, quick[model], id=model)
        yield pytest.param(model, tuple(SEARCHES), id=f"{model}, all", marks=pytest.mark.slow)


@pytest.mark.parametrize(("model", "names"), [*searches(bytes=("two best",), alone=("greedy", "three samples"))])
def test_texts_grow_into_those_of_a_search_in_one_go(models, model, names):
    translator = models[model]
    grown = {name: 0 for name in names}
    for name in names:
        search = SEARCHES[name]
        expected = translator.translate(TEXTS, **search)
        for place, (text, wanted) in enumerate(zip(TEXTS, expected, strict=True)):
            *partial, last = partial_outputs(translator, text, sentence_seed=place, **search)
            assert [(one.text, one.ids) for one in last.hypotheses] == [(one.text, one.ids) for one in wanted]
            np.testing.assert_allclose(
                [one.score for one in last.hypotheses], [one.score for one in wanted], rtol=1e-4, atol=1e-5
            )
            before = [""] * len(last.texts)
            for one in partial:
                assert one.hypotheses is None
                for old, new, whole in zip(before, one.texts, last.texts, strict=False):
                    assert new.startswith(old)
                    assert whole.startswith(new)
                grown[name] += one.texts != before[: len(one.texts)]
                before = one.texts
    assert all(grown.values()), "something is certain before the end"


def test_a_blank_text_has_an_empty_output_at_once(letters_translator):
    assert list(partial_outputs(letters_translator, " ", prefix=[5])) == [([""], [NOTHING])]


def test_every_step_can_be_the_last_that_is_wanted(letters_translator):
    """Every step yields, even without new text, so that the consumer can stop the search."""
    *partial, last = partial_outputs(letters_translator, "a b c")
    assert len(partial) >= len(last.hypotheses[0].ids)
    assert len({one.texts[0] for one in partial}) < len(partial)


def test_a_greedy_word_is_certain_as_soon_as_it_is_written(letters_translator):
    (best,) = letters_translator.translate(["a b c"], beam_size=1)[0]
    found = [one.texts[0] for one in partial_outputs(letters_translator, "a b c", beam_size=1)]
    words = best.text.split()
    assert found[: len(words)] == [" ".join(words[: count + 1]) for count in range(len(words))]


@pytest.mark.parametrize(("model", "name"), [("letters", "greedy"), ("letters", "three samples"), ("alone", "greedy")])
def test_a_search_ends_when_all_outputs_hold_a_stop(models, model, name):
    """The stop is a word of each output; before it, the texts are those of a search that goes on."""
    translator, search = models[model], SEARCHES[name]
    text = "a b c"
    *all_steps, last = partial_outputs(translator, text, **search)
    given = "" if translator.has_inputs else text
    written = [one.removeprefix(given).split() for one in last.texts]
    stops = [words[min(1, len(words) - 1)] for words in written if words]
    *steps, stopped = partial_outputs(translator, text, stops=stops, **search)
    assert len(steps) < len(all_steps)
    assert [one.texts for one in steps] == [one.texts for one in all_steps[: len(steps)]]
    assert [one.text for one in stopped.hypotheses] == stopped.texts
    for found, whole in zip(stopped.texts, last.texts, strict=True):
        assert whole.startswith(found)
        assert found == whole or any(stop in found.removeprefix(given) for stop in stops)


@pytest.mark.parametrize("n_best", [1, 3])
def test_a_beam_search_ends_when_its_certain_beginning_holds_a_stop(letters_translator, n_best):
    search = {"beam_size": 4, "prefix": WORDS.encode("b a"), "n_best": n_best}
    *all_steps, _ = partial_outputs(letters_translator, "a b c", **search)
    *steps, last = partial_outputs(letters_translator, "a b c", stops=["z", "a"], **search)
    assert len(steps) < len(all_steps)
    assert [one.text for one in last.hypotheses] == last.texts == ["b a"] * n_best


class Upper(Letters):
    def decode_target(self, ids):
        return super().decode_target(ids).upper()


class Whole(Letters):
    finishes = True

    def finish(self, source, output):
        return Finished(f"({output})")


def test_outputs_that_are_not_written_id_by_id_come_whole(letters_translator):
    assert has_partial_outputs(letters_translator)
    for problem in (Upper, Whole):
        assert not has_partial_outputs(sharing(letters_translator, problem().with_encoders(letters().encoders)))
    assert not has_partial_outputs(translator_of(moods(), TransformerEncoder))
    assert not has_partial_outputs(sharing(letters_translator, replace_unknown=True))
    translator = sharing(letters_translator)
    translator.engine = FallbackEngine(translator.model_engine, translator.model_engine)
    assert not has_partial_outputs(translator)


# === The tree of a beam against the search itself, by hand and by brute force ===

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
    translator = sharing(translator, extra_length=-2)  # the beginning adds to the limit
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
