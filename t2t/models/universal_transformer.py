"""The Universal Transformer of Dehghani et al. (2019, arXiv:1807.03819): one layer of each stack, applied repeatedly.

Legend: B batch, S source length, T target length, D width, N rows decoded together.
"""

from typing import Any

import keras

from t2t.hparams.universal_transformer import UniversalTransformerHParams
from t2t.layers.cache import StepCache, set_passes
from t2t.layers.depth_recurrence import Halting, Recurrence
from t2t.layers.masks import keys_keep
from t2t.layers.positions import build_positions
from t2t.models.transformer import Decoder, EncodedSource, Encoder, Transformer
from t2t.registry import register_model


@register_model
class UniversalTransformer(Transformer):
    """Universal Transformer: each stack repeats one layer, a fixed number of times or until each position stops.

    The layer, self-attention, attention to the source and feed-forward, is the Transformer's (section 2.1).
    """

    hparams_class = UniversalTransformerHParams
    packs_examples = False  # each step adds positions that count from the beginning of the row

    def create_positions(self, **named: Any) -> None:
        """Returns None: positions are added in each step instead, see `Recurrence`."""
        return

    def create_encoder(self, **named: Any) -> "UniversalEncoder":
        """Returns the unbuilt encoder."""
        return UniversalEncoder(self.hparams, **named)

    def create_decoder(self, has_source: bool, **named: Any) -> "UniversalDecoder":
        """Returns the unbuilt decoder."""
        return UniversalDecoder(self.hparams, has_source, **named)


class UniversalEncoder(Encoder):
    """One layer of self-attention and feed-forward, repeated."""

    def __init__(self, hparams: UniversalTransformerHParams, **kwargs):
        super().__init__(hparams, **kwargs)
        self.recurrence = build_recurrence(self, hparams)

    def call(self, x_BSD, keep_BS, number_BS=None, seed=None):
        """Returns (B, S, D); see the base class."""
        keep = keys_keep(keep_BS, number_BS, number_BS)

        def transform(x_BSD, seed):
            return self.layers_[0](x_BSD, keep, keep_BS, seed=seed)

        x_BSD = self.recurrence(x_BSD, keep_BS, transform=transform, seed=seed)
        return self.final_norm(x_BSD) if self.final_norm is not None else x_BSD


class UniversalDecoder(Decoder):
    """One layer of masked self-attention, attention to the encoder's output and feed-forward, repeated.

    In decoding, each step of the recurrence caches its own keys and values of earlier positions.
    """

    def __init__(self, hparams: UniversalTransformerHParams, has_source: bool, **kwargs):
        super().__init__(hparams, has_source, **kwargs)
        self.recurrence = build_recurrence(self, hparams)
        set_passes(self.layers_[0], self.recurrence.steps)

    def call(
        self, x, source: EncodedSource | None, keep_BT=None, number_BT=None, cache: StepCache | None = None, seed=None
    ):
        """Returns (B, T, D), or with a cache (N, D); see the base class."""
        keys_values, source_keep, target_keep = self.masks(source, keep_BT, number_BT)

        def transform(x, seed):
            return self.layers_[0](x, keys_values[0], source_keep, target_keep, keep_BT, cache=cache, seed=seed)

        x = self.recurrence(x, keep_BT, transform=transform, cache=cache, seed=seed)
        return self.final_norm(x) if self.final_norm is not None else x


def build_recurrence(owner: keras.layers.Layer, hparams: UniversalTransformerHParams) -> Recurrence:
    """Returns the recurrence of `owner`."""
    policy, steps, layout = owner.dtype_policy, hparams.recurrence_steps, hparams.sinusoid_layout
    sizes = (hparams.max_length, hparams.hidden_size)
    positions = build_positions(hparams.positions, *sizes, layout, dtype=policy, name="positions")
    halting = None
    if hparams.recurrence_type == "act":
        settings = (hparams.act_epsilon, hparams.act_halting_bias_init, hparams.act_loss_weight)
        halting = Halting(steps, *settings, dtype=policy, name="halting")
    return Recurrence(steps, layout, positions, halting, dtype=policy, name="recurrence")
