"""Hparams of the LSTM models: Tensor2Tensor's sets and small ones.

Source of the values, unless a line says otherwise: Tensor2Tensor's sets of these names.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams, Set, for_copying, for_multi30k
from t2t.hparams.field import param, training_fraction
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class RecurrentHParams(HParams):
    """Hparams shared by the recurrent models."""

    cell: str = param(
        "lstm", "Recurrent cell: lstm, long short-term memory, or gru, gated recurrent units (Cho et al. 2014) with "
        "fewer weights.", choices=("lstm", "gru"),
    )  # fmt: skip
    dropout: float = training_fraction(0.2, "Dropout rate on inputs of layers and on the last output, a fraction.")


@dataclass(kw_only=True)
class DirectedHParams(RecurrentHParams):
    """An encoder whose final states are the initial states of the decoder's layers."""

    encoder_direction: str = param(
        "reversed", "Direction in which the source is read: reversed (from the last word), forward, or both with half "
        "the units each.",
        choices=("reversed", "forward", "bidirectional"),
    )  # fmt: skip

    def complaints(self) -> list[str]:
        """Checks that hidden_size is even for a bidirectional encoder, which has half of it in each direction."""
        if self.encoder_direction == "bidirectional" and self.hidden_size % 2:
            return [f"hparam hidden_size={self.hidden_size} is odd; a bidirectional encoder has half in each direction"]
        return []


@dataclass(kw_only=True)
class MultiTaskHParams(DirectedHParams):
    """An encoder shared by the problems of a mixture, and one decoder for all or one for each."""

    shared_decoder: bool = param(
        True, "Whether the problems of a mixture also share the decoder; false: each has its own (Luong et al. 2016, "
        "arXiv:1511.06114).", only_shapes=True,
    )  # fmt: skip


@dataclass(kw_only=True)
class LstmHParams(MultiTaskHParams):
    """An encoder, and a decoder that starts from its final states."""


@dataclass(kw_only=True)
class LstmAttentionHParams(MultiTaskHParams):
    """A decoder with attention to the encoder's output."""

    attention_mechanism: str = param(
        "bahdanau", "Attention. bahdanau: additive, before the recurrent step; luong: multiplicative, after it, with "
        "input feeding.",
        choices=("bahdanau", "luong"),
    )  # fmt: skip


def for_recurrent(hparams: Set) -> Set:
    """Returns the set with the batches, optimizer and learning rate of the recurrent models."""
    # Tensor2Tensor's rate is 0.0002 throughout, after 100 updates, with betas 0.85 and 0.997 and epsilon 1e-6. Ours is
    # larger and decays, with Adam's usual constants. Gradients of recurrent networks occasionally explode, so their
    # norm is clipped (Pascanu et al. 2013, section 3.2): to 1, where Tensor2Tensor has 2.
    return hparams.replace(
        batch_size=1024,
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="inverse_sqrt",
        learning_rate=0.002,
        learning_rate_warmup_steps=500,
        clip_grad_norm=1.0,
    )


@register_hparams
def lstm_seq2seq() -> LstmHParams:
    """2 layers of 128 units, dropout 0.2, the source read backwards."""
    return for_recurrent(LstmHParams(hidden_size=128, num_hidden_layers=2))


@register_hparams
def lstm_bahdanau_attention() -> LstmAttentionHParams:
    """The sizes of lstm_seq2seq with additive attention."""
    return for_recurrent(LstmAttentionHParams(hidden_size=128, num_hidden_layers=2))


@register_hparams
def lstm_luong_attention() -> LstmAttentionHParams:
    """The sizes of lstm_seq2seq with multiplicative attention and input feeding."""
    return lstm_bahdanau_attention().replace(attention_mechanism="luong")


@register_hparams
def lstm_attention_multi30k_tiny() -> LstmAttentionHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 2+2 layers of 168 units, both directions, dropout 0.3."""
    return for_multi30k(lstm_bahdanau_attention()).replace(
        encoder_direction="bidirectional",
        hidden_size=168,
        dropout=0.3,
        learning_rate=0.003,
        learning_rate_warmup_steps=500,
    )


@register_hparams
def lstm_seq2seq_tiny() -> LstmHParams:
    """Learns to reverse short sequences in a minute on two processor cores: one layer of 64 units."""
    return _tiny(lstm_seq2seq())


@register_hparams
def lstm_attention_tiny() -> LstmAttentionHParams:
    """Learns to copy and reverse in minutes on two processor cores: one layer of 64 units, both directions."""
    return _tiny(lstm_bahdanau_attention()).replace(encoder_direction="bidirectional")


def _tiny(hparams: Set) -> Set:
    return for_copying(hparams).replace(hidden_size=64, num_hidden_layers=1, learning_rate=0.01)


# === Constituency parsing, alone and together with translation ===
# Source of the values, unless a line says otherwise: Vinyals et al., *Grammar as a Foreign Language* (2015,
# arXiv:1412.7449), sections 2 and 3.


@register_hparams
def lstm_attention_parsing() -> LstmAttentionHParams:
    """The paper's parser: 3+3 layers of 256 units, the source read backwards, dropout; beam 10."""
    # Words on one side and labels on the other share no table. How the paper trains, and what it drops, it does not
    # say: as the other sets. Outputs are as long as those of the Transformer's sets for parsing.
    return lstm_bahdanau_attention().replace(
        hidden_size=256,
        num_hidden_layers=3,
        encoder_direction="reversed",
        dropout=0.2,
        shared_embedding=False,
        shared_embedding_and_softmax_weights=False,
        max_length=512,
        batch_size=2048,
        beam_size=10,
        alpha=0.0,
        extra_length=300,
    )


@register_hparams
def lstm_attention_parsing_tiny() -> LstmAttentionHParams:
    """For two processor cores, as large as transformer_parsing_tiny and trained as long: 3+3 layers of 200 units."""
    # The paper's depth, direction and attention; batches, updates and average of the Transformer's set; a rate of ours.
    return lstm_attention_parsing().replace(
        hidden_size=200,
        max_length=256,
        learning_rate_schedule="linear",
        learning_rate=0.002,
        learning_rate_warmup_steps=500,
        batch_size=4096,
        train_steps=12_000,
        ema_decay=0.99,
        beam_size=4,
    )


@register_hparams
def lstm_attention_multitask_tiny() -> LstmAttentionHParams:
    """lstm_attention_parsing_tiny for several problems: one encoder, and a decoder for each."""
    # One to many, as in Luong et al. 2016 (arXiv:1511.06114), section 3.1; their large LSTMs have no attention.
    return lstm_attention_parsing_tiny().replace(shared_decoder=False)
