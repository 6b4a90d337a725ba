"""Sets for constituency parsing by LSTMs with attention, alone and together with translation.

Source of the values, unless a line says otherwise: Vinyals et al., *Grammar as a Foreign Language* (2015,
arXiv:1412.7449), sections 2 and 3.
"""

from t2t.hparams.lstm import LstmAttentionHParams, lstm_bahdanau_attention
from t2t.registry import register_hparams


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
