"""With their tiny sets, sequence models learn to copy and to reverse unseen sequences."""

import pytest

from t2t.registry import HPARAMS, MODELS
from tests.learning import sequence_accuracy, trained

TASKS = ("copy", "reverse")
NEURAL_GPUS = ("neural_gpu", "diagonal_neural_gpu", "extended_neural_gpu", "markovian_neural_gpu")
SMALL = (
    "hidden_size=64,filter_size=128,label_smoothing=0,layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,"
    "learning_rate_schedule=linear,learning_rate=0.003,learning_rate_warmup_steps=100,clip_grad_norm=1,"
    "optimizer_adam_epsilon=1e-8,optimizer_adam_beta2=0.98"
)
"""Hparams that give a Transformer variant the size and training of the other models' tiny sets."""


CASES = [
    pytest.param("lstm_seq2seq", "lstm_seq2seq_tiny", "", "reverse", marks=pytest.mark.slow),
    *(
        pytest.param(*case, marks=pytest.mark.exhaustive)
        for case in (
            ("lstm_seq2seq_attention", "lstm_attention_tiny", "", "reverse"),
            ("lstm_seq2seq_attention", "lstm_attention_tiny", "attention_mechanism=luong", "reverse"),
            ("gnmt", "gnmt_tiny", "", "reverse"),
            ("deep_att", "deep_att_tiny", "", "reverse"),
            ("lstm_moe", "lstm_moe_tiny", "", "reverse"),
            ("grid_lstm", "grid_lstm_tiny", "", "reverse"),
            ("rctm_2", "rctm_2_tiny", "", "copy"),
            ("conv_s2s", "conv_s2s_tiny", "", "copy"),
            ("conv_s2s", "conv_s2s_tiny", "", "reverse"),
            ("byte_net", "byte_net_tiny", "", "copy"),
            ("byte_net", "byte_net_tiny", "block=multiplicative", "copy"),
            ("byte_net", "byte_net_tiny", "block=cascade,num_hidden_layers=1", "copy"),
            ("recurrent_byte_net", "recurrent_byte_net_tiny", "", "copy"),
            ("recurrent_byte_net", "recurrent_byte_net_tiny", "encoder=convolutional,num_hidden_layers=5", "copy"),
            ("slice_net", "slice_net_tiny", "", "copy"),
            ("slice_net", "slice_net_tiny", "", "reverse"),
            ("slice_net", "slice_net_tiny", "convolution=grouped,convolution_groups=[4]", "reverse"),
            ("slice_net", "slice_net_tiny", "convolution_groups=[4,2]", "reverse"),
            ("universal_transformer", "universal_transformer_tiny", f"{SMALL},num_rec_steps=3", "reverse"),
            ("universal_transformer", "adaptive_universal_transformer_tiny", SMALL, "reverse"),
            (
                "evolved_transformer",
                "evolved_transformer_tiny",
                f"{SMALL},num_encoder_layers=1,num_decoder_layers=1",
                "reverse",
            ),
            ("transformer_cmlm", "transformer_cmlm_multi30k_tiny", f"{SMALL},num_hidden_layers=2", "reverse"),
            ("multi_model", "multi_model_tiny", "", "copy"),
            ("multi_model", "multi_model_tiny", "", "reverse"),
            *((name, f"{name}_tiny", "", task) for name in NEURAL_GPUS for task in TASKS),
        )
    ),
]


@pytest.mark.parametrize(("model", "hparams_set", "changes", "task"), CASES)
def test_learns(model, hparams_set, changes, task):
    learned = trained(MODELS.get(model), HPARAMS.get(hparams_set)().override(changes), task, steps=600)
    assert sequence_accuracy(learned, task) >= 0.9  # 0.99 with this seed; without learning next to nothing
