"""The state of a batch of sentences during a search; selecting sentences and concatenating batches.

Legend: B sentences of a batch, N rows of them, P prefix length, J selected sentences, V vocabulary.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from t2t.search.constraints.automaton import Automaton
from t2t.search.state import select_sentences


class SearchState(NamedTuple):
    """State of the search of a batch; all but numbers, automaton and step have sentences, or rows, as first axis."""

    numbers: Any
    """`SearchNumbers`."""
    automaton: Any
    """`Automaton` of what may be written; () for anything."""
    encoded: Any
    prefix: Any
    """(N, P) int32, zero padded: beginnings of outputs; () where there are none."""
    limits: Any
    """(B,) int32: maximum length of the outputs, end of sequence included."""
    seeds: Any
    """(B,) int32: sampling seeds of the sentences."""
    candidates: Any
    """(B, V) bool: the tokens that may be written; () for all."""
    progress: Any


class SearchBatch(NamedTuple):
    """Sentences that are searched as one batch."""

    indices: np.ndarray
    """(B,) int: indices of the sentences."""
    tokens: int
    """Tokens searched so far."""
    state: SearchState


def prefix_of(state: SearchState) -> Any:
    """Returns the beginnings of outputs, (N, P), or None."""
    return None if isinstance(state.prefix, tuple) else state.prefix


def automaton_of(state: SearchState) -> Automaton | None:
    """Returns the automaton of what may be written, or None."""
    return state.automaton or None


def constraint_states(progress: Any) -> Any:
    """Returns the automaton's state of each hypothesis of a progress, or () without an automaton."""
    return progress[1].constraint


def with_constraint_states(progress: Any, states: Any) -> Any:
    """Returns the progress with these automaton states of its hypotheses."""
    return progress._replace(**{progress._fields[1]: progress[1]._replace(constraint=states)})


def select_from_batch(state: SearchState, chosen_J) -> SearchState:
    """Returns the state of some of the sentences, `chosen_J` (J,) int32, in this order."""
    batch_size = ops.shape(state.limits)[0]
    return _map_sentences(lambda part: select_sentences(part, chosen_J, batch_size), state)


def _map_sentences(function: Callable, *states: SearchState) -> SearchState:
    """Applies a function to the parts with sentences on axis 0; takes the others from the first state."""
    first, progress = states[0], states[0].progress
    found = function(*(state._replace(numbers=(), automaton=(), progress=state.progress[1:]) for state in states))
    whole = type(progress)(progress[0], *found.progress)
    return found._replace(numbers=first.numbers, automaton=first.automaton, progress=whole)


def concat_batches(batches: list[SearchBatch]) -> SearchBatch:
    """Concatenates batches that have searched the same number of tokens.

    Args:
        batches: the list is emptied, so that the memory of its parts can be freed.
    """
    parts = [batch.state for batch in batches]
    indices, tokens = np.concatenate([batch.indices for batch in batches]), batches[0].tokens
    batches.clear()
    if len(parts) == 1:
        return SearchBatch(indices, tokens, parts[0])
    return SearchBatch(
        indices, tokens, _map_sentences(functools.partial(keras.tree.map_structure, _concat_padded), *parts)
    )


def _concat_padded(*parts: Any) -> Any:
    """Concatenates along the first axis; shorter other axes are zero-padded."""
    widest = np.max([part.shape for part in parts], axis=0)[1:]
    pads = [[(0, 0), *((0, most - size) for most, size in zip(widest, part.shape[1:], strict=True))] for part in parts]
    return ops.concatenate([ops.pad(part, pad) for part, pad in zip(parts, pads, strict=True)], axis=0)
