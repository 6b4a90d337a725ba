"""Every sequence model against one in numpy: logits, decoding steps, gradients, receptive fields; names of weights."""

import functools
import itertools
import math
import re

import numpy as np
import pytest

from t2t.inference.ctranslate2.conversion import model_complaints
from tests.builders import batch, numpy, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.unit.models.references import MASKED, SIZES, UNTIED, reference_of, tiny

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
"""Lengths: one source is shorter than what is written, and one longer."""
WIDER = {"layer_channels": (6, 10), "kernel_sizes": (3, 5)}
GROUPED = {"convolution": "grouped", "convolution_groups": (2,)}
TWO_LEVELS = {"num_experts": 12, "expert_groups": 3}
STATES = {"num_hidden_layers": 2, "state_rows": 3}
TRANSFORMERS = [name for name, sizes in SIZES.items() if "layer_prepostprocess_dropout" in sizes]
ACT = {"recurrence_type": "act", "act_max_steps": 4, "act_epsilon": 0.05, "act_loss_weight": 0.5}
ATTENTIONS = (
    ("lstm_seq2seq", {}),
    ("lstm_seq2seq_attention", {"attention_mechanism": "bahdanau"}),
    ("lstm_seq2seq_attention", {"attention_mechanism": "luong"}),
)
BLOCKS = ("relu", "multiplicative", "cascade")
LEARNED = {"norm_position": "pre", "positions": "learned", "shared_embedding": False}
VARIANTS = {
    "byte_net": [{"block": "relu", "num_hidden_layers": 3}, {"block": "multiplicative"}, {"block": "cascade"}],
    "byte_net_lm": [{"block": block} for block in BLOCKS],
    "conv_s2s": [{**WIDER, **UNTIED}, {}],
    "deep_att": [{}],
    "evolved_transformer": [{"norm_position": "pre"}, {"norm_position": "post"}],
    "extended_neural_gpu": [STATES, {}, {"steps_per_position": 2, "kernel_size": 5}],
    "gnmt": [{}],
    "grid_lstm": [{}],
    "lstm_moe": [{"cell_units": 10, **TWO_LEVELS}, {}],
    "lstm_seq2seq_attention_bidirectional_encoder": [{}, {"attention_mechanism": "luong"}],
    "markovian_neural_gpu": [STATES],
    "multi_model": [{"num_hidden_layers": 2}],
    "rctm_1": [{}, {"activation": "sigmoid", "num_hidden_layers": 5}],
    "rctm_2": [{}, {"activation": "sigmoid", "unfolding_factor": 1.5, "unfolding_offset": 2}],
    "recurrent_byte_net": [
        {"encoder": "convolutional"},
        *({"encoder": "recurrent", "encoder_direction": way} for way in ("bidirectional", "forward", "reversed")),
    ],
    "slice_net": [{}, {"convolution_groups": (3, 2), "num_hidden_layers": 2}, GROUPED, {"convolution": "full"}],
    "transformer_prepend": [{}, {"prepend_mode": MASKED, **LEARNED}],
    "universal_transformer": [{"norm_position": "pre"}, ACT],
    "wavenet": [{}],
}  # fmt: skip
"""By model: its variants, the most general one first."""
FIRST = [(name, variants[0]) for name, variants in VARIANTS.items() if name != "byte_net_lm"] + [*ATTENTIONS]
CASES = [*FIRST, *((name, changes) for name, variants in VARIANTS.items() for changes in variants)] + [
    (name, {**attention, **ends})
    for name, attention in ATTENTIONS
    for ends in ({"encoder_direction": "bidirectional", **UNTIED}, {"encoder_direction": "reversed"})
]
CASES = [case for place, case in enumerate(CASES) if case not in CASES[:place]]
each = functools.partial(pytest.mark.parametrize, ("name", "changes"), ids=str)


@each(CASES)
def test_logits_and_those_of_steps_are_the_references_whatever_the_padding(name, changes):
    """Steps of each model's first variant are compiled, for any number of rows and positions."""
    model = tiny(name, **changes)
    check_logits(model, reference_of(model), SOURCES, TARGETS, 11)
    if model.spec.inputs:
        check_steps_of_beams(model, "float32", SOURCES, length=6, compiled=(name, changes) in FIRST)


@each([*FIRST, *((name, {"cell": "gru", **changes}) for name, changes in ATTENTIONS)])
def test_steps_in_half_precision_are_teacher_forcing(name, changes):
    model = tiny(name, dtype="mixed_bfloat16", **changes)
    check_steps_of_beams(model, "mixed_bfloat16", SOURCES, length=4, compiled=False)


@each([*ATTENTIONS, ("deep_att", {}), ("gnmt", {}), ("lstm_moe", {}), ("recurrent_byte_net", {})])
def test_steps_of_gated_units_are_teacher_forcing(name, changes):
    check_steps_of_beams(tiny(name, cell="gru", **changes), "float32", SOURCES, length=6, compiled=False)


@pytest.mark.slow
@each(
    [
        *(("byte_net", {"block": block, "num_hidden_layers": 1 + (block != "cascade")}) for block in BLOCKS),
        *(("byte_net_lm", {"block": block}) for block in BLOCKS),
        ("deep_att", {}), ("evolved_transformer", {"norm_position": "pre"}), ("extended_neural_gpu", {}),
        ("extended_neural_gpu", STATES), ("gnmt", {}), ("grid_lstm", {}),
        *((name, {"encoder_direction": "reversed", **changes}) for name, changes in ATTENTIONS),
        ("lstm_moe", {"cell_units": 10, "expert_balance": 0.0}),
        ("lstm_moe", {"cell_units": 10, "expert_balance": 0.0, **TWO_LEVELS}), ("markovian_neural_gpu", STATES),
        ("multi_model", {"expert_balance": 0.0}), *(("rctm_1", changes) for changes in VARIANTS["rctm_1"]),
        *(("rctm_2", changes) for changes in VARIANTS["rctm_2"]), ("recurrent_byte_net", {"encoder": "convolutional"}),
        ("recurrent_byte_net", {"encoder_direction": "bidirectional"}), ("slice_net", {"convolution_groups": (3, 2)}),
        ("transformer_prepend", {}), ("transformer_prepend", {"prepend_mode": MASKED}), ("universal_transformer", {}),
        ("universal_transformer", {**ACT, "act_loss_weight": 0.0}), ("wavenet", {}),
    ]
)  # fmt: skip
def test_gradients_are_those_of_finite_differences_of_the_reference(name, changes):
    """Without the cost of uneven use of experts and of steps, which other tests compute by hand."""
    model = tiny(name, label_smoothing=0.0, **changes)
    features = batch(sources=(4, 1), targets=(3, 5), widths=(6, 6))
    features = features if model.spec.inputs else {"targets": features["targets"]}
    loss = loss_of_reference(lambda weights: reference_of(model, weights), features)
    rtol, atol = (5e-3, 2e-3) if name.endswith("neural_gpu") else (2e-3, 1e-3)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=path)


@each(
    [
        *((name, {"dropout": 0.5}) for name, sizes in SIZES.items() if "dropout" in sizes and "lstm_seq" not in name),
        *((name, {"layer_prepostprocess_dropout": 0.5}) for name in TRANSFORMERS),
        *(("byte_net", {"dropout": 0.5, "block": block}) for block in ("multiplicative", "cascade")),
        ("byte_net_lm", {"output_dropout": 0.5}), ("recurrent_byte_net", {"encoder": "recurrent", "dropout": 0.5}),
    ]
)  # fmt: skip
def test_dropout_is_a_function_of_its_seed(name, changes):
    check_dropout_follows_its_seed(tiny(name, **changes))


@each(
    [
        ("byte_net", {"dilations": (1, 2)}),  # the join's window of 3, then 3 with dilations 1 and 2: 2 + 2 + 4
        ("byte_net_lm", {}),  # windows of 3 with dilations 1 and 3: 2 + 6
        ("wavenet", {"dilations": (1, 2, 4)}),  # windows of 2, the first and dilations 1, 2 and 4: 1 + 1 + 2 + 4
    ]
)
def test_a_position_sees_8_positions_before_the_word_before_and_no_farther(name, changes):
    has_inputs = name == "byte_net"
    model, ids = tiny(name, tokens_spec(inputs=13 * has_inputs), **changes), np.full((2, 14), 5, np.int32)
    ids[1, 2] = 7
    logits = numpy(model({"targets": ids} | ({"inputs": np.full((2, 14), 4, np.int32)} if has_inputs else {})))
    differs = np.abs(logits[0] - logits[1]).max(axis=1) > 1e-6
    assert differs.tolist() == [False] * 3 + [True] * 9 + [False] * 2  # read from position 3 on


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_ctranslate2_is_refused(name):
    (text,) = model_complaints(tiny(name))
    assert name.replace("_", "") in text.lower()


# === Weights ===

NORM, MAP, CELL = "{gamma,beta}", "{kernel,bias}", "{input_kernel,recurrent_kernel,bias}"
NARROW_WINDOW_WIDE = [f"{{narrow,window,wide}}/{part}" for part in (f"norm/{NORM}", f"convolution/{MAP}")]
STEP = "{convolution/windows/kernel,convolution/channels/kernel,norm/gamma,norm/beta}"
UNITS = "{gates_kernel,gates_bias,candidate_kernel,candidate_bias}"
ADDITIVE = "decoder/attention/{memory,query,score}_kernel"
PATHS = [
    ("byte_net", {"num_hidden_layers": 1}, [
        f"{{join,output_map}}/{MAP}", f"{{encoder/norm,decoder/norm,output_norm}}/{NORM}",
        *(f"{{encoder,decoder}}/block_0/{path}" for path in NARROW_WINDOW_WIDE),
    ]),
    ("byte_net_lm", {}, [
        f"output_map/{MAP}", f"{{decoder/norm,output_norm}}/{NORM}",
        *(f"decoder/block_{{0,1}}/{path}" for path in NARROW_WINDOW_WIDE),
    ]),
    ("conv_s2s", {"num_hidden_layers": 1, "layer_channels": (6,)}, [
        "{source,target}_positions/table",
        "{encoder,decoder}/{narrow,layer_0/gated/convolution,wide}/{kernel,length,bias}",
        "decoder/attention_0/{query,context}/{kernel,length,bias}",
    ]),
    ("extended_neural_gpu", {}, [f"{{unit_0,decoder/unit_0}}/{UNITS}"]),
    ("gnmt", {}, [
        f"encoder/layer_{{0_forward,0_backward,1,2,3}}/cell/{CELL}", f"decoder/cell_{{0,1,2,3}}/{CELL}",
        "decoder/context_kernel_{0,1,2,3}", ADDITIVE,
    ]),
    ("lstm_seq2seq_attention", {"num_hidden_layers": 1, "encoder_direction": "bidirectional"}, [
        f"encoder/layer_0_{{forward,backward}}/cell/{CELL}", f"decoder/cell_0/{CELL}",
        "decoder/{fed,combine}_kernel", ADDITIVE,
    ]),
    ("multi_model", {}, [
        "command/vector", f"{{encoder_0,mixer/block_0,mixer/block_1,decoder_0/block}}/step_{{1,2,3,4}}/{STEP}",
        f"{{mixer,decoder_0}}/attention/step_{{1,2}}/{STEP}",
        "{mixer,decoder_0}/attention/{self,source}_attention/project/{query,key,value}_kernel",
        "{mixer,decoder_0}/attention/{self,source}_attention/output/kernel",
        "{encoder,decoder}_experts/experts/{gate/gate_kernel,gate/noise_kernel,inner,outer,inner_bias,outer_bias}",
        f"{{encoder,decoder}}_experts/residual/norm/{NORM}",
    ]),
    ("neural_gpu", {}, ["{source,output}_embedding/table", f"unit_0/{UNITS}"]),
    ("diagonal_neural_gpu", {}, ["{source,output}_embedding/table", f"unit_0/{UNITS}"]),
    ("recurrent_byte_net", {"encoder_direction": "bidirectional"}, [
        f"encoder/layer_{{0,1}}_{{forward,backward}}/cell/{CELL}", f"decoder/stack/cell_{{0,1}}/{CELL}",
    ]),
    ("slice_net", {}, [
        f"{{encoder_0,decoder_0/module}}/step_{{1,2,3,4}}/{STEP}", f"{{mixer,decoder_0}}/attention/step_{{1,2}}/{STEP}",
        f"mixer/step/{STEP}",
    ]),
    ("wavenet", {"num_hidden_layers": 2}, [
        "condition/kernel", f"{{first,read,output_map,block_0/residual}}/{MAP}", f"block_{{0,1}}/{{window,skip}}/{MAP}",
    ]),
]  # fmt: skip
"""Model, hparams, and the paths of all weights, with alternatives in braces; but for the targets' table."""


def expanded(path):
    """Returns the paths of one with alternatives in braces."""
    parts = [part.split(",") for part in re.split(r"[{}]", path)]
    return map("".join, itertools.product(*parts))


@pytest.mark.parametrize(("name", "changes", "paths"), PATHS)
def test_paths_of_weights_are_a_format_and_stay(name, changes, paths):
    found = weights_of(tiny(name, **changes))
    found.pop("target_embedding/table", None)
    assert sorted(found) == sorted(itertools.chain(*map(expanded, paths)))


COUNTS = {
    # 8 D^2 a cell that reads D, 16 D^2 one that reads half of 4 D and D.
    "deep_att": lambda D: (2 * (8 + 16 * 2) + 10 + (8 + 16) + 4 + 3 + 2) * D**2 + (4 * (2 * 3 + 2) + 1) * D,
    # 8 D^2 a cell, 4 more for each vector that is read beside, and 2 D^2 + D of attention; 4 layers.
    "gnmt": lambda D: ((16 + 12 + 8 * 2) + 12 * 4 + 2) * D**2 + (4 * 5 + 4 * 4 + 1) * D,
    # Three cells a block, each with four gates of 3 D numbers, in 3 grids; two maps of D to 2 D.
    "grid_lstm": lambda D: (3 * 36 + 4) * D**2 + (3 * 12 + 2) * D,
}


@pytest.mark.parametrize("name", COUNTS)
def test_weights_of_d_units_are_counted_by_hand(name):
    model = tiny(name)
    width = model.hparams.hidden_size
    expected = COUNTS[name](width) + model.spec.targets.vocab_size * width
    assert sum(math.prod(value.shape) for value in weights_of(model).values()) == expected
