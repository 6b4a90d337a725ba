"""Tensors that a search carries from step to step.

Legend: B sentences, K beams of each, N = B * K rows in sentence-major order, J chosen sentences.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


def as_tensors(structure: Any) -> Any:
    """Converts the leaves of a state to tensors, so that a loop can carry them."""
    return keras.tree.map_structure(ops.convert_to_tensor, structure)


def repeat_for_beams(structure: Any, beam_size: int) -> Any:
    """Repeats each row of each tensor `beam_size` times: (B, ...) to (N, ...), the rows of a sentence side by side."""
    return keras.tree.map_structure(lambda leaf: ops.repeat(leaf, beam_size, axis=0), structure)


def select_sentences(structure: Any, chosen: Any, batch_size: Any) -> Any:
    """Selects the rows of some sentences.

    Args:
        structure: nested structure of tensors with leading axis B or a multiple of it, the rows of a sentence side by
            side.
        chosen: (J,) int32, indices of sentences.
        batch_size: B.
    """

    def select(leaf):
        shape = ops.shape(leaf)
        by_sentence = ops.reshape(leaf, (batch_size, shape[0] // batch_size, *shape[1:]))
        return ops.reshape(ops.take(by_sentence, chosen, axis=0), (-1, *shape[1:]))

    return keras.tree.map_structure(select, structure)


def advance_while_active(
    active_sentences: Callable, add_token: Callable, progress: Any, until: Any, min_active: Any
) -> Any:
    """Adds tokens until `until` are written or at most `min_active` sentences are unfinished; returns the progress."""

    def unfinished(*now):
        active_B = active_sentences(type(progress)(*now))
        return ops.logical_and(now[0] < until, ops.sum(ops.cast(active_B, "int32")) > min_active)

    return type(progress)(*ops.while_loop(unfinished, add_token, progress))


def restore_shapes(structure: Any, like: Any) -> Any:
    """Restores the static shapes of `like`, which a graph loop requires to be constant."""

    def restore(new: Any, old: Any) -> Any:
        # No reshape if the static shapes agree: it would fix a growing axis at its old size.
        return new if tuple(new.shape) == tuple(old.shape) else ops.reshape(new, ops.shape(old))

    keras.tree.assert_same_structure(like, structure)
    return keras.tree.map_structure(restore, structure, like)
