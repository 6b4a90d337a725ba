"""What a search carries from step to step: tensors of rows.

Legend: B sentences, K beams of each, N = B * K rows in sentence-major order, J chosen sentences.
"""

from typing import Any

import keras
from keras import ops


def as_tensors(structure: Any) -> Any:
    """Turns the leaves of a state into tensors, so that a loop can carry them."""
    return keras.tree.map_structure(ops.convert_to_tensor, structure)


def repeat_for_beams(structure: Any, beam_size: int) -> Any:
    """Repeats each row of each tensor `beam_size` times: (B, ...) to (N, ...), the rows of a sentence side by side."""
    return keras.tree.map_structure(lambda leaf: ops.repeat(leaf, beam_size, axis=0), structure)


def take_sentences(structure: Any, chosen: Any, batch_size: Any) -> Any:
    """Keeps what belongs to some of the sentences.

    Args:
        structure: nested structure of tensors; where the first axis is longer than B, the rows of a sentence stand
            side by side.
        chosen: (J,) int32, numbers of sentences.
        batch_size: B.
    """

    def taken(leaf):
        shape = ops.shape(leaf)
        by_sentence = ops.reshape(leaf, (batch_size, shape[0] // batch_size, *shape[1:]))
        return ops.reshape(ops.take(by_sentence, chosen, axis=0), (-1, *shape[1:]))

    return keras.tree.map_structure(taken, structure)


def with_shapes_of(structure: Any, like: Any) -> Any:
    """Restores what is known of the shapes of tensors before the program runs, which a graph loop wants unchanged."""
    keras.tree.assert_same_structure(like, structure)
    return keras.tree.map_structure(_with_shape_of, structure, like)


def _with_shape_of(new: Any, old: Any) -> Any:
    # Equal as far as both are known: a reshape would hold an axis that grows to what it was.
    return new if tuple(new.shape) == tuple(old.shape) else ops.reshape(new, ops.shape(old))
