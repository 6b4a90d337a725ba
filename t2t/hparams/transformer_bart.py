"""The Transformer of BART, and of fairseq's translation models with the same network: mBART, M2M-100 and NLLB.

Source of the networks: Lewis et al. 2020 (arXiv:1910.13461), section 2.1; Liu et al. 2020 (arXiv:2001.08210), section
2.2; Fan et al. 2021 (arXiv:2010.11125), section 2.2; of the recipe: how Liu et al. fine-tune, section 3.1.
"""

from dataclasses import dataclass
from typing import Any

from t2t.hparams.field import UsedWhen, param
from t2t.hparams.transformer import TransformerHParams
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class TransformerBartHParams(TransformerHParams):
    """Normalization of embeddings and first position; encoder and decoder have separate learned positions."""

    embedding_norm: bool = param(
        False, "Whether sums of embeddings and positions are normalized, with a norm for each side, as in BART."
    )
    first_position: int = param(
        0, "Index of the first position; fairseq counts from 2.", minimum=0,
        used_when=UsedWhen("positions", ("sinusoidal",)),
    )  # fmt: skip


@register_hparams
def transformer_mbart() -> TransformerBartHParams:
    """The network of mBART, 12+12 layers, d 1024, d_ff 4096, 16 heads, and 40,000 updates of fine-tuning."""
    return _fine_tuned(embedding_norm=True, positions="learned", activation="gelu", output_bias=True, target_start="id")


@register_hparams
def transformer_m2m() -> TransformerBartHParams:
    """The network of M2M-100 with 418M parameters: mBART's, but sinusoids from 2 on and no norms of embeddings."""
    return _fine_tuned(sinusoid_layout="split", first_position=2, target_start="id")


def _fine_tuned(**network: Any) -> TransformerBartHParams:
    return TransformerBartHParams(
        hidden_size=1024,
        filter_size=4096,
        num_heads=16,
        norm_position="pre",
        attention_bias=True,
        norm_epsilon=1e-5,
        num_hidden_layers=12,
        max_length=1024,
        layer_prepostprocess_dropout=0.3,
        label_smoothing=0.2,
        learning_rate_schedule="linear",
        learning_rate=3e-5,
        learning_rate_warmup_steps=2500,
        train_steps=40_000,
        beam_size=5,
        length_penalty="power",
        alpha=1.0,
        **network,
    )
