"""Foreign ids in our order: padding, end of sequence and unknown first, the others as they come."""

from collections.abc import Mapping, Sequence

import numpy as np

from t2t.errors import UserError


def our_order(size: int, pad: int, eos: int, unknown: int) -> np.ndarray:
    """Returns the foreign id of each of our ids, (size,): pad, eos and unknown, then the others in their order."""
    first = [pad, eos, unknown]
    return np.array(first + [number for number in range(size) if number not in first])


def pieces_by_id(table: Mapping[str, int], where: str) -> list[str]:
    """Returns the pieces of a table of ids in the order of the ids.

    Raises:
        UserError: the ids are not 0 to n - 1, each of one piece; `where` names the table.
    """
    pieces = sorted(table, key=table.__getitem__) if all(type(n) is int for n in table.values()) else []
    if not pieces or [table[piece] for piece in pieces] != list(range(len(pieces))):
        raise UserError(f"{where}: its {len(table)} ids are not 0 to {len(table) - 1}, one a piece; get it again")
    return pieces


def in_our_order(pieces: Sequence[str], order: np.ndarray) -> list[str]:
    """Returns the pieces by our ids; `order` is what `our_order` returned."""
    return [pieces[number] for number in order]
