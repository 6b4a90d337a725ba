"""Hparams of the Evolved Transformer: Tensor2Tensor's sets, and one for Multi30k.

Source of the values, unless a line says otherwise: Tensor2Tensor's sets of these names, which start from its
transformer_base, transformer_base_v3 here. The paper is So, Liang and Le 2019 (arXiv:1901.11117).
"""

from dataclasses import dataclass

from t2t.hparams.field import param
from t2t.hparams.transformer import TransformerHParams, transformer_base_v3, transformer_multi30k_tiny
from t2t.registry import register_hparams

MOST_WIDE_HEADS = 16
"""The decoder's first self-attention has twice num_heads heads, but at most this many, and at least num_heads."""


@dataclass(kw_only=True)
class EvolvedTransformerHParams(TransformerHParams):
    """Hparams of the Evolved Transformer; filter_size is also the width of the encoder's left branch."""

    decoder_activation: str = param(
        "silu", "Non-linearity of the decoder's feed-forward sub-layer (silu is the paper's Swish); the encoder's is "
        "activation.", choices=("relu", "gelu", "silu"),
    )  # fmt: skip

    @property
    def wide_heads(self) -> int:
        """Number of heads of the decoder's first self-attention, which is parallel to attention to the source."""
        heads = self.num_decoder_heads or self.num_heads
        return max(heads, min(2 * heads, MOST_WIDE_HEADS))

    def complaints(self) -> list[str]:
        """Checks heads, decoder_layer, positions and filter_size, in addition to the Transformer's checks."""
        found = super().complaints()
        for what, channels in (("keys", self.key_channels), ("values", self.value_channels)):
            if channels % self.wide_heads:
                found.append(
                    f"hparam num_heads={self.num_heads}: the decoder's first self-attention has {self.wide_heads} "
                    f"heads, which do not divide the {channels} channels of {what}; choose another number"
                )
        if self.num_kv_heads and self.wide_heads % self.num_kv_heads:
            found.append(
                f"hparam num_kv_heads={self.num_kv_heads}: the decoder's first self-attention has {self.wide_heads} "
                f"heads, which it does not divide; choose another number"
            )
        if self.decoder_layer != "self_attention":
            found.append(
                f"hparam decoder_layer={self.decoder_layer}: an Evolved Transformer has self-attention; leave it out"
            )
        if self.positions == "rotary" and self.key_channels // self.wide_heads % 2:
            found.append(
                f"hparam positions=rotary: it rotates pairs of channels, and each of the {self.wide_heads} heads of "
                f"the decoder's first self-attention has {self.key_channels // self.wide_heads} for keys; choose a "
                f"smaller num_heads, or other positions"
            )
        if self.positions == "relative_bias":
            found.append(
                f"hparam positions=relative_bias: the decoder's first self-attention has {self.wide_heads} heads "
                f"and the others {self.num_heads}, and biases are of each head; choose other positions"
            )
        if self.filter_size < self.hidden_size // 2:
            found.append(
                f"hparam filter_size={self.filter_size}: the encoder's left branch is its wider one, and the right one "
                f"has {self.hidden_size // 2} channels; choose as many or more"
            )
        return found


@register_hparams
def evolved_transformer_base() -> EvolvedTransformerHParams:
    """3+4 layers, twice as deep as the Transformer's, of transformer_base_v3's sizes."""
    return _evolved(transformer_base_v3())


@register_hparams
def evolved_transformer_big() -> EvolvedTransformerHParams:
    """evolved_transformer_base with d 1024, d_ff 4096, 16 heads, dropout 0.3, 300,000 updates."""
    big = transformer_base_v3().replace(
        hidden_size=1024,
        filter_size=4096,
        num_heads=16,
        layer_prepostprocess_dropout=0.3,
        train_steps=300_000,
        precision="auto",
    )
    return _evolved(big)


@register_hparams
def evolved_transformer_tiny() -> EvolvedTransformerHParams:
    """evolved_transformer_base with d 128, d_ff 512, 4 heads."""
    return _evolved(transformer_base_v3().replace(hidden_size=128, filter_size=512, num_heads=4))


@register_hparams
def evolved_transformer_multi30k_tiny() -> EvolvedTransformerHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 2+2 layers, d 128, d_ff 256, 4 heads, norms in front."""
    return EvolvedTransformerHParams.of(transformer_multi30k_tiny(), norm_position="pre", num_hidden_layers=2)


def _evolved(hparams: TransformerHParams) -> EvolvedTransformerHParams:
    # Its rate after warm-up is that of the schedule it starts from, 2 (D * warm-up)^-1/2; from there it falls along a
    # cosine.
    peak = 2.0 * (hparams.hidden_size * hparams.learning_rate_warmup_steps) ** -0.5
    changes = {"num_encoder_layers": 3, "num_decoder_layers": 4, "learning_rate_schedule": "cosine"}
    return EvolvedTransformerHParams.of(hparams, **changes, learning_rate=peak)
