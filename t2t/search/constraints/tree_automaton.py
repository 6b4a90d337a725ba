"""Trees over a given number of words, written as labels: tags, and phrases that begin and end.

The state holds the stack of open phrases, since a phrase is closed by its own label. The depth and the number of words
left give the ids that a tree still needs, so that no phrase is opened that could not be closed in time.

Legend: B sentences, N rows, D most open phrases, S = 3 + D numbers of a state, V vocabulary, C kinds of ids.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from keras import ops

from t2t.specs.constants import EOS_ID
from t2t.specs.constraints import MAX_DEPTH, TreeConstraint, TreeLabels

_NOTHING, _END, _TAG, _OPEN, _CLOSE = range(5)
"""Kinds of ids."""
_WORDS, _DEPTH, _IS_EMPTY, _STACK = range(4)
"""A state: words without a tag, open phrases, whether the innermost one is over no word yet, and their numbers."""


class TreeAutomaton(NamedTuple):
    """See `t2t.search.constraints.automaton.Automaton`."""

    kinds: Any
    """(V,) int32: the kind of each id."""
    phrases: Any
    """(V,) int32: for ids that begin or end a phrase, its number from 1; 0 for others."""

    @classmethod
    def of_labels(cls, labels: TreeLabels, vocab_size: int) -> Self:
        """Returns the automaton of a vocabulary, of numpy arrays."""
        kinds_V, phrases_V = np.zeros((2, vocab_size), np.int32)
        kinds_V[EOS_ID] = _END
        kinds_V[list(labels.tags)] = _TAG
        for number, ends in enumerate(labels.phrases, start=1):
            kinds_V[list(ends)] = _OPEN, _CLOSE
            phrases_V[list(ends)] = number
        return cls(kinds_V, phrases_V)

    def allowed(self, states: Any, room: Any, ids: Any) -> Any:
        """See the base class."""
        words_N, depth_N, is_empty_N = states[:, _WORDS], states[:, _DEPTH], states[:, _IS_EMPTY] > 0
        has_words_N, is_outside_N = words_N > 0, ops.equal(depth_N, 0)
        # Needed: its own id, depth + 1 closing ids, a tag per word, EOS.
        fits_N = ops.logical_and(words_N + depth_N + 3 <= room, depth_N < MAX_DEPTH)
        allowed_NC = ops.stack(
            [
                ops.zeros_like(is_empty_N),
                ops.logical_and(is_outside_N, ops.logical_not(has_words_N)),
                has_words_N,
                ops.logical_and(has_words_N, fits_N),
                ops.logical_not(ops.logical_or(is_outside_N, is_empty_N)),
            ],
            axis=1,
        )
        kinds_V, phrases_V = ops.take(self.kinds, ids), ops.take(self.phrases, ids)
        is_other_NV = ops.not_equal(phrases_V[None, :], _innermost(states)[:, None])
        wrong_end_NV = ops.logical_and(ops.equal(kinds_V, _CLOSE)[None, :], is_other_NV)
        return ops.logical_and(ops.take(allowed_NC, kinds_V, axis=1), ops.logical_not(wrong_end_NV))

    def advance(self, states: Any, ids: Any) -> Any:
        """See the base class."""
        kinds_N, phrases_N = ops.take(self.kinds, ids), ops.take(self.phrases, ids)
        is_tag_N, opens_N, closes_N = (ops.cast(ops.equal(kinds_N, kind), "int32") for kind in (_TAG, _OPEN, _CLOSE))
        depth_N = states[:, _DEPTH]
        is_top_ND = ops.equal(ops.arange(MAX_DEPTH, dtype="int32")[None, :], depth_N[:, None])
        pushed_ND = ops.logical_and(is_top_ND, opens_N[:, None] > 0)
        stack_ND = ops.where(pushed_ND, phrases_N[:, None], states[:, _STACK:])
        counts = (states[:, _WORDS] - is_tag_N, depth_N + opens_N - closes_N, opens_N)
        return ops.concatenate([ops.stack(counts, axis=1), stack_ND], axis=1)


def first_states(words: Any) -> Any:
    """Returns the states (B, S) int32 before anything is written, of the words of each sentence, (B,) int32."""
    return ops.pad(ops.expand_dims(words, 1), ((0, 0), (0, _STACK - 1 + MAX_DEPTH)))


def tree_automaton(constraints: Sequence[TreeConstraint], vocab_size: int) -> tuple[TreeAutomaton, Any]:
    """Returns the automaton of constraints with the same labels, and the first state of each, (B, S) int32."""
    words = np.array([constraint.words for constraint in constraints], np.int32)
    return TreeAutomaton.of_labels(constraints[0].labels, vocab_size), np.asarray(first_states(words))


def _innermost(states: Any) -> Any:
    """Returns the number of the innermost open phrase, (N,) int32; -1 without one."""
    depth_N1 = ops.expand_dims(states[:, _DEPTH], 1)
    below_N = ops.take_along_axis(states[:, _STACK:], ops.maximum(depth_N1 - 1, 0), axis=1)[:, 0]
    return ops.where(depth_N1[:, 0] > 0, below_N, -1)
