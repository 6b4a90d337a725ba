"""Hparams of the Universal Transformer: Tensor2Tensor's sets, and one for Multi30k.

Source of the values, unless a line says otherwise: Tensor2Tensor's sets of these names, which start from its
transformer_base, transformer_base_v3 here. The paper is Dehghani et al. 2019 (arXiv:1807.03819).
"""

from dataclasses import dataclass

from t2t.hparams.field import UsedWhen, param, redeclared
from t2t.hparams.transformer import (
    TransformerHParams,
    transformer_base_v3,
    transformer_multi30k_tiny,
)
from t2t.registry import register_hparams

_BASIC = UsedWhen("recurrence_type", ("basic",))
_ACT = UsedWhen("recurrence_type", ("act",))


@dataclass(kw_only=True)
class UniversalTransformerHParams(TransformerHParams):
    """One layer in each stack, applied repeatedly."""

    # The vectors of steps are sinusoids, whatever the positions.
    sinusoid_layout: str = redeclared(TransformerHParams, "sinusoid_layout", used_when=None)
    # It is the number of steps, of which no weight shows anything.
    num_hidden_layers: int = redeclared(TransformerHParams, "num_hidden_layers", only_shapes=False)
    recurrence_type: str = param(
        "basic", "Number of steps. basic: num_rec_steps; act: chosen for each position by adaptive computation time.",
        choices=("basic", "act"),
    )  # fmt: skip
    num_rec_steps: int = param(
        0, "Steps of the recurrence in each stack; 0 = num_hidden_layers.", minimum=0, used_when=_BASIC
    )
    act_max_steps: int = param(
        0, "Largest number of steps per position; 0 = twice num_hidden_layers.", minimum=0, used_when=_ACT
    )
    act_epsilon: float = param(
        0.01, "A position halts once its halting probabilities sum to 1 minus this.", minimum=0.0, maximum=1.0,
        used_when=_ACT,
    )  # fmt: skip
    act_halting_bias_init: float = param(
        1.0, "Initial bias of the halting probabilities, before the sigmoid.", used_when=_ACT, only_trains=True
    )
    act_loss_weight: float = param(
        0.01, "Ponder cost (tau of Graves 2016), in nats per step of a position and for its remainder.", minimum=0.0,
        used_when=_ACT, only_trains=True,
    )  # fmt: skip

    @property
    def recurrence_steps(self) -> int:
        """Number of steps of the recurrence; with act, the largest number."""
        if self.recurrence_type == "act":
            return self.act_max_steps or 2 * self.num_hidden_layers
        return self.num_rec_steps or self.num_hidden_layers

    @property
    def encoder_layers(self) -> int:
        """Number of encoder layers, 1."""
        return 1

    @property
    def decoder_layers(self) -> int:
        """Number of decoder layers, 1."""
        return 1

    def complaints(self) -> list[str]:
        """Checks that numbers of layers per stack are unset, and that hidden_size is even for the step sinusoids."""
        found = super().complaints()
        for name in ("num_encoder_layers", "num_decoder_layers"):
            if getattr(self, name):
                found.append(
                    f"hparam {name}={getattr(self, name)}: each stack of a Universal Transformer is one layer; set "
                    f"num_rec_steps or act_max_steps, how often it is applied"
                )
        if self.hidden_size % 2 and self.positions != "sinusoidal":
            found.append(f"hparam hidden_size={self.hidden_size} is odd; the vectors of steps need an even width")
        return found


@register_hparams
def universal_transformer_small() -> UniversalTransformerHParams:
    """transformer_base_v3 with one layer in each stack, applied 6 times."""
    return UniversalTransformerHParams.of(transformer_base_v3())


@register_hparams
def universal_transformer_base() -> UniversalTransformerHParams:
    """One layer in each stack, applied 6 times: d 1024, d_ff 4096, 16 heads, dropout 0.3. Paper: BLEU 28.9."""
    return universal_transformer_small().replace(
        hidden_size=1024, filter_size=4096, num_heads=16, layer_prepostprocess_dropout=0.3
    )


@register_hparams
def universal_transformer_big() -> UniversalTransformerHParams:
    """universal_transformer_base with d 2048, d_ff 8192."""
    return universal_transformer_base().replace(hidden_size=2048, filter_size=8192, precision="auto")


@register_hparams
def universal_transformer_tiny() -> UniversalTransformerHParams:
    """One layer in each stack, applied 8 times: d 128, d_ff 512, 4 heads."""
    return universal_transformer_small().replace(
        hidden_size=128, filter_size=512, num_heads=4, num_hidden_layers=2, num_rec_steps=8
    )


@register_hparams
def adaptive_universal_transformer_small() -> UniversalTransformerHParams:
    """universal_transformer_small with adaptive computation time, at most 12 steps."""
    return _adaptive(universal_transformer_small())


@register_hparams
def adaptive_universal_transformer_base() -> UniversalTransformerHParams:
    """universal_transformer_base with adaptive computation time, at most 12 steps."""
    return _adaptive(universal_transformer_base())


@register_hparams
def adaptive_universal_transformer_tiny() -> UniversalTransformerHParams:
    """universal_transformer_tiny with adaptive computation time, at most 4 steps."""
    return _adaptive(universal_transformer_tiny())


@register_hparams
def universal_transformer_multi30k_tiny() -> UniversalTransformerHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: one layer, d 176, d_ff 704, applied 4 times."""
    return UniversalTransformerHParams.of(transformer_multi30k_tiny(), hidden_size=176, filter_size=704)


@register_hparams
def adaptive_universal_transformer_multi30k_tiny() -> UniversalTransformerHParams:
    """universal_transformer_multi30k_tiny with adaptive computation time, at most 8 steps."""
    return _adaptive(universal_transformer_multi30k_tiny())


def _adaptive(hparams: UniversalTransformerHParams) -> UniversalTransformerHParams:
    return hparams.replace(recurrence_type="act", num_rec_steps=0)
