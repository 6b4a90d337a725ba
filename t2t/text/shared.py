"""What two vocabularies have in common."""

from collections import Counter

import numpy as np

from t2t.text.encoder import TextEncoder


def shared_ids(theirs: TextEncoder, ours: TextEncoder) -> np.ndarray:
    """Returns (N, 2) int64: the ids, there and here, of the pieces that both vocabularies have.

    Pieces are the same if their texts are, in vocabularies of one kind. Texts that a vocabulary has twice are left out.
    """
    if theirs.kind != ours.kind:
        return np.zeros((0, 2), np.int64)
    there, here = _id_by_piece(theirs), _id_by_piece(ours)
    pairs = [(there[piece], token) for piece, token in here.items() if piece in there]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _id_by_piece(encoder: TextEncoder) -> dict[str, int]:
    pieces = [encoder.piece(token) for token in range(encoder.vocab_size)]
    times = Counter(pieces)
    return {piece: token for token, piece in enumerate(pieces) if times[piece] == 1}
