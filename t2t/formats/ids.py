"""Maps foreign ids to our order: padding, end of sequence and unknown first, then the others in their order."""

from collections.abc import Mapping, Sequence

import numpy as np

from t2t.errors import UserError


def our_order(size: int, pad: int, eos: int, unknown: int) -> np.ndarray:
    """Returns the foreign id of each of our ids, (size,): pad, eos and unknown, then the others in their order."""
    first = [pad, eos, unknown]
    return np.array(first + [number for number in range(size) if number not in first])


def pieces_by_id(table: Mapping[str, int], where: str) -> list[str]:
    """Returns the pieces of a piece -> id table, sorted by id.

    Raises:
        UserError: the ids are not 0 to n - 1, each once; the message names the table with `where`.
    """
    pieces = sorted(table, key=table.__getitem__) if all(type(n) is int for n in table.values()) else []
    if not pieces or [table[piece] for piece in pieces] != list(range(len(pieces))):
        raise UserError(f"{where}: its {len(table)} ids are not 0 to {len(table) - 1}, one a piece; get it again")
    return pieces


def in_our_order(pieces: Sequence[str], order: np.ndarray) -> list[str]:
    """Returns the pieces by our ids; `order` is from `our_order`."""
    return [pieces[number] for number in order]
