"""Masked language modelling: some tokens of a text are hidden and have to be predicted.

The recipe of Devlin et al. (2018, arXiv:1810.04805), section 3.1, task 1.
"""

from dataclasses import dataclass

import numpy as np

from t2t.errors import UserError
from t2t.specs.constants import EOS_ID, PAD_ID, UNK_ID
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder
from t2t.text.sentencepiece import SentencePieceEncoder


@dataclass(frozen=True, kw_only=True)
class TokenMasking:
    """Hides some tokens of a text."""

    vocab_size: int
    mask_id: int
    """Id that stands for a hidden token."""
    rate: float = 0.15
    """Share of the tokens that are to be predicted."""
    hidden: float = 0.8
    """Share of these that become `mask_id`."""
    exchanged: float = 0.1
    """Share of these that are replaced by a random token; the others are kept."""

    def __call__(self, ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Hides random tokens.

        Args:
            ids: (length,) integers, perhaps with padding at the end. At least one token is chosen, never the end of
                sequence.
            rng: of the choice.

        Returns:
            Two arrays like `ids`: what a model reads, and what it predicts: the original tokens at the chosen
            positions, else PAD_ID.
        """
        places = np.flatnonzero((ids != PAD_ID) & (ids != EOS_ID))
        count = min(len(places), max(1, round(self.rate * len(places))))
        chosen = rng.choice(places, size=count, replace=False)
        draws, others = rng.random(count), rng.integers(EOS_ID + 1, self.vocab_size, size=count)
        inputs, targets = ids.copy(), np.full_like(ids, PAD_ID)
        targets[chosen] = ids[chosen]
        is_hidden, is_kept = draws < self.hidden, draws >= self.hidden + self.exchanged
        inputs[chosen] = np.where(is_hidden, self.mask_id, np.where(is_kept, ids[chosen], others))
        return inputs, targets


def mask_id_of(encoder: TextEncoder, problem: str) -> int:
    """Returns an id that texts do not use: that of unknown words, or byte 0.

    Raises:
        UserError: the vocabulary has none; the message names the `problem`.
    """
    if encoder.unknown_id is not None:
        return encoder.unknown_id
    if encoder.kind in (SentencePieceEncoder.kind, ByteEncoder.kind):
        return UNK_ID
    raise UserError(
        f"problem {problem}: its vocabulary of kind {encoder.kind} has no id that texts do not use, which could stand "
        f"for a hidden word; choose --vocab_kind={SentencePieceEncoder.kind}, byte or token"
    )
