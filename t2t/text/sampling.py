"""Subword sampling: draws another segmentation of a text each time, so that a model sees many of them.

Byte-pair encodings drop merges (Provilkov et al. 2020, "BPE-Dropout", arXiv:1910.13267, algorithm 1); unigram models
draw from their best segmentations (Kudo 2018, "Subword Regularization", arXiv:1804.10959, section 3.2). SentencePiece's
own sampling uses one generator per process, which cannot be seeded for each example.

User-defined pieces, such as tags that the texts of a corpus have themselves, stay whole, as in every encoding.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import sentencepiece

from t2t.errors import UserError
from t2t.specs.constants import EOS_ID, UNK_ID
from t2t.text.encoder import TextEncoder
from t2t.text.sentencepiece import PIECE_MARKER, SentencePieceEncoder, escape

N_BEST = 64
"""Number of best segmentations of a unigram model to draw from."""


class SubwordSampler:
    """Draws segmentations of the texts of a vocabulary.

    Args:
        encoder: of kind `sentencepiece`.

    Raises:
        UserError: the vocabulary is of another kind, or neither byte-pair encoding within words nor a unigram model.
    """

    def __init__(self, encoder: TextEncoder):
        self._encoder, self._processor = encoder, sentencepiece.SentencePieceProcessor()
        self._scores: dict[str, float] = {}
        """Of a byte-pair encoding, by piece: pieces with higher scores are merged first."""
        try:
            if not isinstance(encoder, SentencePieceEncoder):
                raise RuntimeError
            self._processor.load_from_serialized_proto(encoder.to_bytes())
            if not encoder.keeps_to_words:
                self._processor.nbest_encode("a", nbest_size=2)
        except RuntimeError:
            raise UserError(
                "problem option subword_sampling: it needs a vocabulary of kind sentencepiece, that of byte-pair "
                f"encoding within words or a unigram model, and this one is another, of kind {encoder.kind}",
                "leave the option out",
            ) from None
        numbers = [n for n in range(encoder.vocab_size) if not self._is_special(n)]
        scores = {self._processor.id_to_piece(n): self._processor.get_score(n) for n in numbers}
        self._score_of = [self._processor.get_score(n) for n in range(encoder.vocab_size)]
        if encoder.keeps_to_words:
            self._scores = scores
            self._whole = self._unmerged(list(scores))
        else:  # the trainer gives user-defined pieces a score of 0, and others the logarithm of their probability
            self._whole = frozenset(piece for piece, score in scores.items() if not score)
        parts = [*map(re.escape, sorted(self._whole, key=len, reverse=True)), "."]
        self._parts = re.compile("|".join(parts), re.DOTALL)
        """Matches what merges begin with: a user-defined piece, the longest first, or a character."""

    def __call__(self, ids: np.ndarray, alpha: float, rng: np.random.Generator) -> np.ndarray:
        """Returns other ids of the same text.

        Args:
            ids: (length,) integers, end of sequence included.
            alpha: for byte-pair encodings, the probability of dropping a merge each time it could be made; for unigram
                models, the exponent of the probabilities: the smaller, the more uniform the choice.
            rng: source of all randomness.

        Returns:
            (length,) int32, end of sequence included.
        """
        text = escape(self._encoder.decode(ids))
        if not text:
            return ids
        if not self._scores:
            return np.array([*self._one_of_best(text, alpha, rng), EOS_ID], np.int32)
        drawn = _uniform(rng)
        pieces = (piece for word in text.split(" ") for piece in self._merged(word, alpha, drawn))
        return np.array([*(number for piece in pieces for number in self._numbers(piece)), EOS_ID], np.int32)

    def _one_of_best(self, text: str, alpha: float, rng: np.random.Generator) -> list[int]:
        best = self._with_whole_pieces(self._processor.nbest_encode(text, nbest_size=N_BEST))
        scores = alpha * np.array([sum(map(self._score_of.__getitem__, ids)) for ids in best])
        weights = np.exp(scores - scores.max())
        chosen: list[int] = best[rng.choice(len(best), p=weights / weights.sum())]
        return chosen

    def _with_whole_pieces(self, best: list[list[int]]) -> list[list[int]]:
        """Returns the segmentations with the user-defined pieces of the first, which has all of them."""
        if not self._whole:
            return best
        whole = [[piece for piece in map(self._processor.id_to_piece, ids) if piece in self._whole] for ids in best]
        return [ids for ids, pieces in zip(best, whole, strict=True) if pieces == whole[0]]

    def _merged(self, word: str, alpha: float, drawn: Iterator[float]) -> list[str]:
        """Returns the pieces of a word with the space before it."""
        pieces = self._parts.findall(PIECE_MARKER + word)
        while True:
            joined = enumerate(one + other for one, other in pairwise(pieces))
            merges = [(self._scores[piece], -position) for position, piece in joined if piece in self._scores]
            left = [merge for merge in merges if next(drawn) >= alpha]
            if not left:
                return pieces
            position = -max(left)[1]
            pieces[position : position + 2] = ["".join(pieces[position : position + 2])]

    def _numbers(self, piece: str) -> list[int]:
        """Returns the id of a piece, or of its bytes."""
        if piece in self._scores:
            return [self._processor.piece_to_id(piece)]
        return [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in piece.encode()]

    def _unmerged(self, pieces: list[str]) -> frozenset[str]:
        """Returns the user-defined pieces of a byte-pair encoding: those that are pieces even if no merge is made.

        No merge has one as a part, since the trainer cuts its text at them; so those of one character may be left out.
        """
        parts = self._processor.encode(
            ["\0" + piece for piece in pieces], out_type=str, enable_sampling=True, alpha=1.0, nbest_size=-1
        )
        return frozenset(
            piece for piece, of_piece in zip(pieces, parts, strict=True) if len(piece) > 1 and of_piece[-1] == piece
        )

    def _is_special(self, number: int) -> bool:
        return number == UNK_ID or self._processor.is_control(number) or self._processor.is_byte(number)


def _uniform(rng: np.random.Generator) -> Iterator[float]:
    """Yields numbers in [0, 1); they are drawn in blocks, which is faster."""
    while True:
        yield from rng.random(256).tolist()
