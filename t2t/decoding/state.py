"""Moving tensors from beam to beam.

Legend: B sentences, K beams of each, N = B * K rows in sentence-major order, J chosen beams of each sentence.
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


def gather_beams(beams: Any, chosen: Any) -> Any:
    """Picks beams of each sentence.

    Args:
        beams: (B, K, ...) any dtype.
        chosen: (B, J) int32, numbers of beams, each in [0, K).

    Returns:
        (B, J, ...): `result[b, j] = beams[b, chosen[b, j]]`.
    """
    shape = ops.shape(beams)
    rows = ops.reshape(beams, (shape[0] * shape[1], *shape[2:]))
    return ops.take(rows, _row_numbers(chosen, shape[1]), axis=0)


def reorder_state(state: Any, beams: Any) -> Any:
    """Gives each beam the state of the beam it continues.

    Args:
        state: nested structure of tensors (N, ...).
        beams: (B, K) int32, which beam of the same sentence each beam continues.

    Returns:
        The structure with its rows moved: one gather a tensor.
    """
    rows_N = ops.reshape(_row_numbers(beams, ops.shape(beams)[1]), (-1,))
    return keras.tree.map_structure(lambda leaf: ops.take(leaf, rows_N, axis=0), state)


def with_shapes_of(structure: Any, like: Any) -> Any:
    """Restores what is known of the shapes of tensors before the program runs, which a graph loop wants unchanged."""
    keras.tree.assert_same_structure(like, structure)
    return keras.tree.map_structure(lambda new, old: ops.reshape(new, ops.shape(old)), structure, like)


def _row_numbers(chosen: Any, beam_size: int) -> Any:
    """(B, J) int32 numbers of beams to numbers of rows in (N, ...)."""
    first_rows_B = ops.arange(ops.shape(chosen)[0], dtype="int32") * beam_size
    return chosen + ops.expand_dims(first_rows_B, 1)
