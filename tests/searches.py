"""Runs whole searches as the engines do, so that tests of searches need no model and no batches."""

from keras import ops

from t2t.layers.beams import reorder_rows
from t2t.search.beam_search import BeamSearch
from t2t.search.methods import search_of
from t2t.search.result import gnmt
from t2t.search.sampling import TokenByToken, greedy_chooser, sampling_chooser
from t2t.search.settings import SAMPLE, SearchSettings, sampling_numbers


def limits_of(max_steps, batch_size):
    """Returns the length limit of each sentence, (B,) int32, from one int or (B,)."""
    return ops.broadcast_to(ops.cast(ops.convert_to_tensor(max_steps), "int32"), (batch_size,))


def searched(search, step_fn, state, width=None, first_states=None):
    """Runs a `BeamSearch` or a `TokenByToken` from start to end; `first_states` are those of its automaton."""
    width = ops.max(search.limits) if width is None else width
    start = search.start(state, width)
    start = start if first_states is None else search.constrain(start, first_states)
    return search.result(search.advance(step_fn, start, width))


def beam_search(
    step_fn, state, *, batch_size, beam_size, vocab_size, max_steps, length_penalty=None, only_best=True,
    width=None, reorder=reorder_rows,
):  # fmt: skip
    limits, penalty = limits_of(max_steps, batch_size), length_penalty or gnmt(0.6)
    search = BeamSearch(beam_size, vocab_size, limits, penalty, only_best, reorder)
    return searched(search, step_fn, state, width)


def greedy(step_fn, state, *, batch_size, vocab_size, max_steps, length_penalty=None):
    limits, penalty = limits_of(max_steps, batch_size), length_penalty or gnmt(0.6)
    return searched(TokenByToken(1, limits, penalty, greedy_chooser(vocab_size)), step_fn, state)


def sample(
    step_fn, state, *, batch_size, vocab_size, max_steps, seed, sentence_seeds=None, samples=1, temperature=1.0,
    top_k=0, top_p=1.0, length_penalty=None,
):  # fmt: skip
    seeds = ops.arange(batch_size, dtype="int32") if sentence_seeds is None else sentence_seeds
    settings = SearchSettings(method=SAMPLE, seed=seed, temperature=temperature, top_k=top_k, top_p=top_p)
    choose = sampling_chooser(
        sampling_numbers([settings]), seeds, samples, vocab_size, most_k=top_k, uses_top_p=top_p < 1
    )
    limits, penalty = limits_of(max_steps, batch_size), length_penalty or gnmt(0.6)
    return searched(TokenByToken(samples, limits, penalty, choose), step_fn, state)


def decode(
    step_fn, state, settings, *, batch_size, vocab_size, max_steps, sentence_seeds=None, reorder=reorder_rows,
    prefix=None, constraints=None,
):  # fmt: skip
    """Runs the search that settings select; `constraints` are `BatchConstraints`."""
    seeds = ops.arange(batch_size, dtype="int32") if sentence_seeds is None else sentence_seeds
    limits = limits_of(max_steps, batch_size)
    automaton, first_states = (None, None) if constraints is None else constraints[:2]
    search = search_of(
        settings, vocab_size=vocab_size, limits=limits, sentence_seeds=seeds, reorder=reorder, prefix=prefix,
        automaton=automaton,
    )  # fmt: skip
    return searched(search, step_fn, state, first_states=first_states)
