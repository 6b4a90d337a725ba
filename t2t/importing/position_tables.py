"""Tables of positions that a file holds: which of our position encodings they are.

Legend: L positions, D width.
"""

import itertools
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.layers.positions import sinusoids

_LAYOUTS = ("interleaved", "halves", "split")
_TOLERANCE = 1e-3
"""Largest difference to sinusoids: what angles of position 5,000 are rounded by in float32. Layouts differ by more."""


def settings_of(table_LD: np.ndarray, most_first: int = 0) -> dict[str, Any]:
    """Returns the hparams under which positions are those of a table: sinusoids of a layout, none, or learned ones.

    Sinusoids begin with a position up to `most_first`; there is a `first_position` where it is not 0.
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
    """Returns the table of both stacks.

    Raises:
        UserError: they have different ones.
    """
    if not np.array_equal(encoder_LD, decoder_LD):
        raise UserError(
            f"{origin}: encoder and decoder have different tables of positions, {encoder_LD.shape} and "
            f"{decoder_LD.shape}; the models here have one for both, so it cannot be imported"
        )
    return encoder_LD
