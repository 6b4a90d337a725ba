"""Recognizes which of our position encodings a table of positions in a file is.

Legend: L positions, D width.
"""

import itertools
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.layers.sinusoids import sinusoids

_LAYOUTS = ("interleaved", "halves", "split")
_TOLERANCE = 1e-3
"""Tolerance for sinusoids: the float32 rounding error of angles at position 5,000. Layouts differ by more."""


def settings_of(table_LD: np.ndarray, most_first: int = 0) -> dict[str, Any]:
    """Returns the hparams that reproduce a table of positions: sinusoids with their layout, none, or learned positions.

    Sinusoids may start at a position up to `most_first`; the result has `first_position` if it is not 0.
    """
    length, width = table_LD.shape
    if not table_LD.any():
        return {"positions": "none"}
    for first, layout in itertools.product(range(most_first + 1), _LAYOUTS if width % 2 == 0 else ()):
        if np.abs(sinusoids(length, width, layout, first) - table_LD).max() < _TOLERANCE:
            settings = {"positions": "sinusoidal", "sinusoid_layout": layout}
            return settings | ({"first_position": first} if first else {})
    return {"positions": "learned", "max_length": length}


def one_table(encoder_LD: np.ndarray, decoder_LD: np.ndarray, origin: str) -> np.ndarray:
    """Returns the table shared by both stacks.

    Raises:
        UserError: the stacks have different tables.
    """
    if not np.array_equal(encoder_LD, decoder_LD):
        raise UserError(
            f"{origin}: encoder and decoder have different tables of positions, {encoder_LD.shape} and "
            f"{decoder_LD.shape}; the models here have one for both, so it cannot be imported"
        )
    return encoder_LD
