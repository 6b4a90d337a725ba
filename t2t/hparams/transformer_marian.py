"""The Transformer of Marian's translators, such as those of OPUS-MT.

Source of the network: `MarianMTModel` of transformers and its conversion of Marian's `transformer` models; of the
recipe: the settings of OPUS-MT-train (github.com/Helsinki-NLP/OPUS-MT-train, lib/config.mk and train.mk).
"""

from t2t.hparams.transformer import TransformerHParams, transformer_base
from t2t.registry import register_hparams


@register_hparams
def transformer_marian() -> TransformerHParams:
    """transformer_base as Marian has it: swish, biases in attention and on logits, sines before cosines."""
    return transformer_base().replace(
        activation="silu",
        attention_bias=True,
        output_bias=True,
        norm_epsilon=1e-5,
        sinusoid_layout="halves",
        max_length=512,
        clip_grad_norm=5.0,
        learning_rate_schedule="inverse_sqrt",
        learning_rate=0.0003,
        learning_rate_warmup_steps=16000,
        beam_size=6,
        length_penalty="power",
        alpha=1.0,
    )
