"""Hparams of the Transformer as a conditional masked language model, which is decoded by mask-predict.

Source of the values, unless a line says otherwise: Ghazvininejad et al. 2019 (arXiv:1904.09324), section 4.1.
"""

from dataclasses import dataclass

from t2t.hparams.groups import MASK_PREDICT
from t2t.hparams.transformer import TransformerHParams, transformer_multi30k_tiny
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class TransformerCmlmHParams(TransformerHParams):
    """The Transformer's hparams, without those that only apply to an autoregressive decoder."""

    def complaints(self) -> list[str]:
        """Checks that the decoder has self-attention, positions are known in advance, and decoding is mask-predict."""
        found = super().complaints()
        if self.decoder_layer != "self_attention":
            found.append(
                f"hparam decoder_layer={self.decoder_layer}: it reads only the tokens before a position, and a "
                f"masked language model reads those after it, too; choose decoder_layer=self_attention"
            )
        if self.positions == "words":
            found.append(
                "hparam positions=words: how many words there were before a position is not known while tokens are "
                "masked; choose other positions"
            )
        if self.decode_method != MASK_PREDICT:
            found.append(
                f"hparam decode_method={self.decode_method}: transformer_cmlm predicts all tokens of an output at "
                f"once; set decode_method={MASK_PREDICT}"
            )
        return found


@register_hparams
def transformer_cmlm_base() -> TransformerCmlmHParams:
    """The paper's base model: the sizes of transformer_base, dropout 0.3, 300,000 updates of 128,000 tokens.

    The paper averages the five best checkpoints (`t2t-avg-all`) and trains on the outputs of a Transformer
    (`t2t-distill`).
    """
    return TransformerCmlmHParams(
        layer_prepostprocess_dropout=0.3,
        effective_batch_size=131_072,
        optimizer="adamw",
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-6,
        weight_decay=0.01,
        learning_rate_schedule="inverse_sqrt",
        learning_rate=5e-4,
        learning_rate_warmup_steps=10_000,
        train_steps=300_000,
        decode_method=MASK_PREDICT,
    )


@register_hparams
def transformer_cmlm_multi30k_tiny() -> TransformerCmlmHParams:
    """For Multi30k, with the sizes and updates of transformer_multi30k_tiny."""
    return TransformerCmlmHParams.of(transformer_multi30k_tiny()).override(f"decode_method={MASK_PREDICT}")
