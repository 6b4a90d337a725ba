"""Hparams of the Transformer that reads inputs and targets as one sequence, under Tensor2Tensor's names."""

from dataclasses import dataclass

from t2t.hparams.field import param, unread_complaints
from t2t.hparams.transformer import (
    TransformerHParams,
    transformer_base_v2,
    transformer_multi30k_tiny,
    transformer_quickstart,
)
from t2t.registry import register_hparams

_ONLY = {
    "positions": ("sinusoidal", "learned", "none"), "decoder_layer": ("self_attention",), "self_attention_window": (0,),
    "relative_keys": (0,), "num_encoder_layers": (0,), "target_space_embedding": (False,), "input_end": (True,),
}  # fmt: skip
"""Values of the Transformer's hparams that are possible with one sequence and one stack, the default first."""


@dataclass(kw_only=True)
class TransformerPrependHParams(TransformerHParams):
    """One stack of num_hidden_layers, or num_decoder_layers."""

    prepend_mode: str = param(
        "prepend_inputs_masked_attention", "Attention of inputs: masked to the inputs up to each, or full over all "
        "inputs. A target always attends to all inputs and the previous targets.",
        choices=("prepend_inputs_masked_attention", "prepend_inputs_full_attention"),
    )  # fmt: skip

    @property
    def sees_all_inputs(self) -> bool:
        """Whether inputs attend to later inputs."""
        return self.prepend_mode == "prepend_inputs_full_attention"

    def complaints(self) -> list[str]:
        """Checks that the Transformer's hparams suit a single stack of self-attention."""
        why = "inputs and targets are one sequence here, of one stack of self-attention"
        return super().complaints() + unread_complaints(self, _ONLY, why)


@register_hparams
def transformer_prepend() -> TransformerPrependHParams:
    """transformer_base_v2 on inputs and targets as one sequence, each position seeing those before: 6 layers, d 512."""
    return TransformerPrependHParams.of(transformer_base_v2())


@register_hparams
def transformer_prepend_multi30k_tiny() -> TransformerPrependHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 10 layers, d 128, d_ff 256, 4 heads, dropout 0.3."""
    return TransformerPrependHParams.of(transformer_multi30k_tiny(), num_hidden_layers=10, norm_position="pre")


@register_hparams
def transformer_prepend_tiny() -> TransformerPrependHParams:
    """For small data on two processor cores: transformer_quickstart in one stack of 4 layers, norms in front."""
    return TransformerPrependHParams.of(transformer_quickstart(), num_hidden_layers=4, norm_position="pre")
