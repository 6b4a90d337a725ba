"""Rows of beams: the hypotheses of a sentence lie side by side; they are repeated, chosen and reordered.

Legend: B sentences, K beams of each, N = B * K rows in sentence-major order, J chosen beams or sentences.
"""

import keras
from keras import ops

from t2t.layers.mode import current_mode, row_numbers
from t2t.layers.tensors import Size, Structure, Tensor


def gather_beams(beams: Tensor, chosen: Tensor) -> Tensor:
    """Picks beams of each sentence: returns `result[b, j] = beams[b, chosen[b, j]]`, (B, J, ...).

    Args:
        beams: (B, K, ...) any dtype.
        chosen: (B, J) int32, indices of beams, each in [0, K).
    """
    return current_mode().kernels.take_beams(beams, chosen)


def repeat_sentences(structure: Structure, rows: Size) -> Structure:
    """Repeats each row of each tensor for the beams of its sentence: (B, ...) to (N, ...), N being `rows`."""

    def repeat(leaf):
        return ops.take(leaf, ops.arange(rows) // (rows // ops.shape(leaf)[0]), axis=0)

    found: Structure = keras.tree.map_structure(repeat, structure)
    return found


def reorder_rows(structure: Structure, beams: Tensor) -> Structure:
    """Reorders the rows of a nested structure of tensors (N, ...), with one gather per tensor.

    `beams` (B, K) int32 says which beam of the same sentence each beam continues.
    """
    rows_N = ops.reshape(row_numbers(beams, ops.shape(beams)[1]), (-1,))
    take = current_mode().kernels.take_rows
    found: Structure = keras.tree.map_structure(lambda leaf: take(leaf, rows_N), structure)
    return found


def repeat_for_beams(structure: Structure, beam_size: int) -> Structure:
    """Repeats each row of each tensor `beam_size` times: (B, ...) to (N, ...), the rows of a sentence side by side."""
    found: Structure = keras.tree.map_structure(lambda leaf: ops.repeat(leaf, beam_size, axis=0), structure)
    return found


def select_sentences(structure: Structure, chosen: Tensor, batch_size: Size) -> Structure:
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
        return ops.reshape(current_mode().kernels.take_rows(by_sentence, chosen), (-1, *shape[1:]))

    found: Structure = keras.tree.map_structure(select, structure)
    return found
