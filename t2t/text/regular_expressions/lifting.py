"""Regular expressions over the ids of a vocabulary: the automaton over bytes reads the bytes that each id adds.

Legend: S states, V vocabulary, L longest piece in bytes.
"""

import re
from collections import Counter

import numpy as np

from t2t.errors import UserError
from t2t.specs.constants import EOS_ID
from t2t.specs.constraints.finite import DEAD, FiniteConstraint
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder
from t2t.text.regular_expressions.automaton import byte_automaton, too_large
from t2t.text.regular_expressions.syntax import parse
from t2t.text.sentencepiece import ESCAPE, PIECE_MARKER, SentencePieceEncoder
from t2t.text.token import WordEncoder

MOST_CELLS = 2**24
"""Maximum of states times ids."""

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def regex_constraint(pattern: str, encoder: TextEncoder) -> FiniteConstraint:
    """Returns the constraint that the whole text of an output matches a regular expression, see `syntax`.

    Raises:
        UserError: the expression is invalid or too large, or this kind of vocabulary does not just concatenate pieces.
    """
    first, later = spellings(encoder)
    table, is_final = byte_automaton(parse(pattern))
    dead = len(table) - 1
    if len(table) * len(later) > MOST_CELLS:
        raise too_large()
    # State 0 is before the first id; state 1 + s is state s of the automaton over bytes.
    begin_V = _after(table, first, np.array([0]))[0]
    after_SV = _after(table, later, np.arange(dead))
    edges, defaults = [], []
    for row_V in (begin_V, *after_SV):
        row = np.where(row_V == dead, DEAD, row_V + 1)
        default = Counter(row[EOS_ID + 1 :].tolist()).most_common(1)[0][0]
        others = EOS_ID + 1 + np.flatnonzero(row[EOS_ID + 1 :] != default)
        edges.append(dict(zip(others.tolist(), row[others].tolist(), strict=True)))
        defaults.append(default)
    final = {1 + int(state) for state in np.flatnonzero(is_final)} | ({0} if is_final[0] else set())
    return FiniteConstraint(tuple(edges), tuple(defaults), frozenset(final))


def spellings(encoder: TextEncoder) -> tuple[list[bytes | None], list[bytes | None]]:
    """Returns the bytes that each id adds to a text, as its first id and as a later one; None if no text has the id.

    Raises:
        UserError: texts of this kind of vocabulary are not its pieces concatenated.
    """
    if isinstance(encoder, ByteEncoder):
        pieces: list[bytes | None] = [None] * 2
        pieces += [bytes([byte]) for byte in range(256)]
        return pieces, pieces
    numbers = range(encoder.vocab_size)
    if isinstance(encoder, WordEncoder):
        words = [
            None if number in (0, EOS_ID, encoder.unknown_id) else encoder.piece(number).encode() for number in numbers
        ]
        return words, [None if word is None else b" " + word for word in words]
    if isinstance(encoder, SentencePieceEncoder):
        later = [_sentencepiece(encoder.piece(number)) if number > 2 else None for number in numbers]
        marked = [encoder.piece(number).startswith(PIECE_MARKER) for number in numbers]
        return [piece[1:] if piece and mark else piece for piece, mark in zip(later, marked, strict=True)], later
    raise UserError(
        f"regex: texts of a vocabulary of kind {encoder.kind} are not its pieces one after the other; those of byte, "
        f"token, word_list and sentencepiece are"
    )


def _sentencepiece(piece: str) -> bytes | None:
    """Returns the bytes of a piece; None for a piece with an escape, which decodes to other text."""
    if found := _BYTE.fullmatch(piece):
        return bytes([int(found[1], 16)])
    return None if ESCAPE in piece else piece.replace(PIECE_MARKER, " ").encode()


def _after(table: np.ndarray, pieces: list[bytes | None], states: np.ndarray) -> np.ndarray:
    """Returns the state that each piece leads to from each of `states`, (S, V)."""
    dead = len(table) - 1
    lengths_V = np.array([0 if piece is None else len(piece) for piece in pieces])
    bytes_VL = np.zeros((len(pieces), int(lengths_V.max())), np.uint8)
    for row, piece in zip(bytes_VL, pieces, strict=True):
        row[: len(piece or b"")] = list(piece or b"")
    found_SV = np.repeat(states[:, None], len(pieces), axis=1)
    found_SV[:, [piece is None for piece in pieces]] = dead
    for place in range(bytes_VL.shape[1]):
        longer_V = np.flatnonzero(lengths_V > place)
        found_SV[:, longer_V] = table[found_SV[:, longer_V], bytes_VL[longer_V, place]]
    return found_SV
