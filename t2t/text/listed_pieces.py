"""The base class of vocabularies whose list of pieces comes from another toolkit."""

import json
from collections.abc import Sequence
from typing import ClassVar

from t2t.errors import UserError
from t2t.specs.constants import EOS_ID, PAD_ID, UNK_ID
from t2t.text.encoder import TextEncoder, fingerprint_of

RESERVED = (PAD_ID, EOS_ID, UNK_ID)


class ListedPieces(TextEncoder):
    """A list that gives each piece its id: 0 padding, 1 end of sequence, 2 unknown, then the other pieces.

    Args:
        pieces: by id, those of padding, end of sequence and unknown first.

    Raises:
        UserError: a piece is listed twice, or there are none but these three.
    """

    lossless = False
    unknown_id = UNK_ID
    described: ClassVar[str] = ""
    """Name of the vocabulary in messages."""

    def __init__(self, pieces: Sequence[str]):
        self._pieces = tuple(pieces)
        self._ids = {piece: token_id for token_id, piece in enumerate(self._pieces)}
        if len(self._ids) < len(self._pieces) or len(self._pieces) <= len(RESERVED):
            raise UserError(
                f"{self.described}: it has {len(self._pieces)} pieces, {len(self._ids)} of them different; each has "
                f"one id, and three are reserved"
            )
        for token_id in RESERVED:  # no text may spell them
            del self._ids[self._pieces[token_id]]

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    @property
    def ids_fingerprint(self) -> str:
        """Fingerprint of the list alone, which several models or codes may share."""
        return fingerprint_of(self.kind, json.dumps(self._pieces).encode())

    def piece(self, token_id: int) -> str:
        """Returns the piece, as it is listed."""
        return self._pieces[token_id]
