"""Subword sampling: draws another segmentation of a text each time, so that a model sees many of them.

Byte-pair encodings drop merges (Provilkov et al. 2020, "BPE-Dropout", arXiv:1910.13267, algorithm 1); unigram models
draw from their best segmentations (Kudo 2018, "Subword Regularization", arXiv:1804.10959, section 3.2). SentencePiece's
own sampling uses one generator per process, which cannot be seeded for each example.

User-defined pieces, such as tags that the texts of a corpus have themselves, stay whole, as in every encoding.
"""

import math
import re
from collections.abc import Container, Sequence
from itertools import pairwise

import numpy as np
import sentencepiece

from t2t.errors import UserError
from t2t.specs import EOS_ID, UNK_ID
from t2t.text.encoder import TextEncoder
from t2t.text.sentencepiece import PIECE_MARKER, SentencePieceEncoder, escape
from t2t.text.words import WordCache

N_BEST = 64
"""Number of best segmentations of a unigram model to draw from."""

_NEVER = math.inf
"""Cost of pieces that cannot be merged."""


class SubwordSampler:
    """Draws segmentations of the texts of a vocabulary.

    Args:
        encoder: of kind `sentencepiece`.

    Raises:
        UserError: the vocabulary is of another kind, or neither byte-pair encoding within words nor a unigram model.
    """

    def __init__(self, encoder: TextEncoder):
        self._encoder, self._processor = encoder, sentencepiece.SentencePieceProcessor()
        self._costs: dict[str, float] = {}
        """Of a byte-pair encoding, by piece: pieces of lower costs are merged first."""
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
            self._costs = {piece: -score for piece, score in scores.items()}
            self._ids = {self._processor.id_to_piece(n): np.int32(n).tobytes() for n in numbers}
            self._characters = WordCache(self._split)
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
        if not self._costs:
            return np.array([*self._one_of_best(text, alpha, rng), EOS_ID], np.int32)
        drops = _Drops(alpha, rng)
        rows = [
            self._ids.get(piece) or self._spell(piece)
            for word in text.split(" ")
            for piece in self._merged(word, drops)
        ]
        return np.frombuffer(b"".join([*rows, _END]), np.int32)

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

    def _merged(self, word: str, drops: "_Drops") -> Sequence[str]:
        """Returns the pieces of a word with the space before it."""
        first, first_costs = self._characters[word]
        if not first_costs:
            return first
        pieces, costs, cost_of = list(first), list(first_costs), self._costs.get
        count = len(costs) - costs.count(_NEVER)
        while count:
            dropped = drops.among(count)
            left = _without(costs, dropped) if dropped else costs
            least = min(left)
            if least == _NEVER:
                break
            at = left.index(least)  # the first of equal ones
            pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
            del costs[at]
            count -= 1
            for one in (at - 1, at):  # the pairs that the new piece is in
                if 0 <= one < len(costs):
                    cost = cost_of(pieces[one] + pieces[one + 1], _NEVER)
                    count += (cost != _NEVER) - (costs[one] != _NEVER)
                    costs[one] = cost
        return pieces

    def _split(self, word: str) -> tuple[list[str], list[float]]:
        """Returns the first pieces of a word with the space before it, and the cost of merging each with the next."""
        pieces = self._parts.findall(PIECE_MARKER + word)
        return pieces, [self._costs.get(one + other, _NEVER) for one, other in pairwise(pieces)]

    def _spell(self, piece: str) -> bytes:
        """Returns the ids of the bytes of a piece that the vocabulary lacks, as bytes of int32."""
        ids = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in piece.encode()]
        return np.array(ids, np.int32).tobytes()

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


_END = np.int32(EOS_ID).tobytes()


def _without(costs: list[float], dropped: Container[int]) -> list[float]:
    """Returns the costs without some merges, given by their numbers."""
    merges = (position for position, cost in enumerate(costs) if cost != _NEVER)
    found = costs.copy()
    for number, position in enumerate(merges):
        if number in dropped:
            found[position] = _NEVER
    return found


class _Drops:
    """Which merges are dropped: a number drawn from [0, 1) decides on each; those below `alpha` are dropped.

    Numbers are drawn in blocks, and of these only the few that are below are looked at one by one, which is faster.
    """

    def __init__(self, alpha: float, rng: np.random.Generator):
        self._alpha, self._rng = alpha, rng
        self._used = self._drawn = 0
        self._next: list[int] = []  # the dropped that are drawn and not used, by their positions, the last first

    def among(self, count: int) -> list[int]:
        """Uses `count` numbers; returns which of these merges are dropped."""
        start = self._used
        end = self._used = start + count
        while self._drawn < end:
            block = np.flatnonzero(self._rng.random(256) < self._alpha) + self._drawn
            self._next[:0] = block[::-1].tolist()
            self._drawn += 256
        dropped = []
        while self._next and self._next[-1] < end:
            dropped.append(self._next.pop() - start)
        return dropped
