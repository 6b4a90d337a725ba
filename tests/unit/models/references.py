"""Small models without dropout and with random weights, and the references in numpy that they are compared with."""

import numpy as np

from t2t.registry import MODELS
from tests.builders import randomise, tokens_spec, weights_of
from tests.reference import convolutional, neural_gpu, recurrent, transformer, transformer_variants

FULL, MASKED = "prepend_inputs_full_attention", "prepend_inputs_masked_attention"
UNTIED = {"shared_embedding": False, "shared_embedding_and_softmax_weights": False}
_STEPS = {"kernel_sizes": (3, 3, 5, 3), "dilations": (1, 2, 1, 4), "num_hidden_layers": 1, "num_decoder_layers": 1}
_TRANSFORMER = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "layer_prepostprocess_dropout": 0.0}
_LSTM = {"hidden_size": 6, "num_hidden_layers": 2, "dropout": 0.0}
_NEURAL_GPU = {"hidden_size": 6, "num_hidden_layers": 1, "dropout": 0.0}
SIZES = {
    "byte_net": {"hidden_size": 8, "num_hidden_layers": 2, "dropout": 0.0, "dilations": (1, 3), "unfolding_offset": 1},
    "byte_net_lm": {"hidden_size": 8, "num_hidden_layers": 2, "dropout": 0.0, "dilations": (1, 3)},
    "conv_s2s": {"hidden_size": 8, "num_hidden_layers": 2, "max_length": 16, "dropout": 0.0},
    "deep_att": {**_LSTM, "num_hidden_layers": 3, "num_decoder_layers": 2},
    "diagonal_neural_gpu": {**_NEURAL_GPU, "hidden_size": 7, **UNTIED},
    "evolved_transformer": {**_TRANSFORMER, "num_hidden_layers": 2, "num_decoder_layers": 1},
    "extended_neural_gpu": {**_NEURAL_GPU, "unfolding_factor": 1.2, "unfolding_offset": 1},
    "gnmt": {**_LSTM, "num_hidden_layers": 4},
    "grid_lstm": {**_LSTM, "num_hidden_layers": 3},
    "lstm_moe": {**_LSTM, "num_hidden_layers": 3, "filter_size": 7, "num_experts": 5},
    "lstm_seq2seq": _LSTM,
    "lstm_seq2seq_attention": _LSTM,
    "lstm_seq2seq_attention_bidirectional_encoder": _LSTM,
    "markovian_neural_gpu": {**_NEURAL_GPU, "unfolding_factor": 1.2, "unfolding_offset": 1},
    "multi_model": {**_STEPS, "hidden_size": 12, "dropout": 0.0, "num_heads": 3, "num_experts": 4, "filter_size": 8},
    "neural_gpu": {**_NEURAL_GPU, "hidden_size": 7, **UNTIED},
    "rctm_1": _LSTM,
    "rctm_2": _LSTM,
    "recurrent_byte_net": {
        **_LSTM, "hidden_size": 8, "num_decoder_layers": 2, "dilations": (1, 3), "unfolding_offset": 1,
    },
    "slice_net": {**_STEPS, "hidden_size": 12, "dropout": 0.0},
    "transformer_prepend": {**_TRANSFORMER, "num_hidden_layers": 2, "max_length": 8, "prepend_mode": FULL},
    "universal_transformer": {**_TRANSFORMER, "num_rec_steps": 3},
    "wavenet": {"hidden_size": 8, "num_hidden_layers": 3, "dilations": (1, 3)},
}  # fmt: skip
REFERENCES = {
    "LstmSeq2seq": recurrent.Lstm, "LstmSeq2seqAttention": recurrent.Lstm,
    "LstmSeq2seqAttentionBidirectionalEncoder": recurrent.LstmBothWays,
    "Rctm1": recurrent.Rctm, "Rctm2": recurrent.Rctm,
} | {
    reference.__name__: reference
    for reference in (
        convolutional.ByteNet, convolutional.ByteNetLm, convolutional.ConvS2s, convolutional.MultiModel,
        convolutional.RecurrentByteNet, convolutional.SliceNet, convolutional.WaveNet, neural_gpu.DiagonalNeuralGpu,
        neural_gpu.ExtendedNeuralGpu, neural_gpu.MarkovianNeuralGpu, neural_gpu.NeuralGpu, recurrent.DeepAtt,
        recurrent.Gnmt, recurrent.GridLstm, recurrent.LstmMoe,
    )
}  # fmt: skip
"""References of all but the Transformers, by the model's class."""


def tiny(name, spec=None, dtype="float32", **changes):
    """Returns a small model without dropout; weights of Neural GPUs are so small that rounding does not grow."""
    model_class = MODELS.get(name)
    hparams = model_class.hparams_class(**(SIZES[name] | changes))
    spec = spec or tokens_spec(inputs=0 if name == "byte_net_lm" else 13)
    model = randomise(model_class(hparams, spec, dtype=dtype))
    for variable in model.variables:
        if "neural_gpu" in name and variable.path.endswith("kernel"):
            variable.assign(np.asarray(variable) / 3)
    return model


def architecture_of(model):
    """Returns what the weights of a Transformer do not determine."""
    hparams, spec = model.hparams, model.spec
    return transformer.Architecture(
        heads=hparams.num_heads, decoder_heads=hparams.num_decoder_heads, kv_heads=hparams.num_kv_heads,
        encoder_layers=hparams.encoder_layers,
        decoder_layers=hparams.decoder_layers, norm=hparams.norm_position, norm_type=hparams.norm_type,
        epsilon=hparams.norm_epsilon, positions=hparams.positions, layout=hparams.sinusoid_layout,
        source_starts=spec.inputs.word_starts if spec.inputs else "", target_starts=spec.targets.word_starts,
        activation=hparams.activation, shared_embedding=hparams.shared_embedding and spec.shared_vocabulary,
        tied_softmax=hparams.shared_embedding_and_softmax_weights, window=hparams.self_attention_window,
        decoder_layer=hparams.decoder_layer, max_distance=hparams.max_relative_position,
        relative_keys=hparams.relative_keys,
        buckets=hparams.relative_bias_buckets, bucket_distance=hparams.relative_bias_max_distance,
        start=hparams.target_start, start_id=hparams.target_start_id,
    )  # fmt: skip


def reference_of(model, weights=None):
    """Returns the reference of a model, with its weights or others."""
    weights, hparams, kind = weights_of(model) if weights is None else weights, model.hparams, type(model).__name__
    if kind in REFERENCES:
        return REFERENCES[kind](weights, hparams)
    shape = architecture_of(model)
    if kind == "TransformerCmlm":
        return transformer_variants.TransformerCmlm(weights, shape)
    if kind == "EvolvedTransformer":
        return transformer_variants.EvolvedTransformer(weights, shape, hparams.wide_heads)
    if kind == "TransformerPrepend":
        return transformer_variants.PrependedTransformer(weights, shape, sees_all=hparams.prepend_mode == FULL)
    if kind == "UniversalTransformer":
        adaptive = hparams.recurrence_type == "act"
        steps = hparams.act_max_steps if adaptive else hparams.num_rec_steps
        act = transformer_variants.Act(hparams.act_epsilon) if adaptive else None
        return transformer_variants.UniversalTransformer(weights, shape, steps, act)
    return transformer.Transformer(weights, shape)
