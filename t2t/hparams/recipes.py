"""Training and decoding recipes and learning rates shared by the sets of several models, without model sizes."""

from typing import TypeVar

from t2t.hparams.base import HParams

Set = TypeVar("Set", bound=HParams)


def for_multi30k(hparams: Set) -> Set:
    """Returns the set with the batches, number of updates, averaging and search of all Multi30k sets.

    They are those of the Transformer of Wu et al. 2021 (section 4), so that models are comparable.
    """
    return hparams.replace(
        max_length=256,
        label_smoothing=0.1,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="inverse_sqrt",
        batch_size=4900,
        effective_batch_size=9800,  # padded tokens of the longer side: about 8,192 target tokens, as in the paper
        train_steps=1500,
        ema_decay=0.99,  # evens out the last hundred updates, as averaging checkpoints does
        beam_size=5,  # search as published: beam 5, log-probability by token
        alpha=1.0,
        length_penalty="power",
    )


def for_copying(hparams: Set) -> Set:
    """Returns the set with a recipe to learn copying and reversing short sequences in a minute on two cores.

    Outputs are either right or wrong, so there is no dropout, label smoothing or beam search.
    """
    return hparams.replace(
        max_length=256,
        dropout=0.0,
        label_smoothing=0.0,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="linear",
        learning_rate=0.003,
        learning_rate_warmup_steps=100,
        clip_grad_norm=1.0,
        batch_size=1024,
        train_steps=1000,
        beam_size=1,
    )


# === Tensor2Tensor's learning rates, with the factors that its code applies and its hparams do not show ===
# Source: `legacy_learning_rate_schedule` in its utils/learning_rate.py; its composed schedules have no such factors.
_ADAM = 0.002
"""Factor of every schedule with the Adam optimizer."""


def noam_rate(rate: float) -> float:
    """Converts a rate of Tensor2Tensor's schedule `noam` to our `learning_rate`, the factor of the paper's formula."""
    return rate * (5000.0 * _ADAM)


def adam_rate(rate: float) -> float:
    """Converts a rate of any other legacy schedule to our `learning_rate`, the rate after warm-up."""
    return rate * _ADAM
