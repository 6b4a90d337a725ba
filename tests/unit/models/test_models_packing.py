"""Rows of several packed examples: loss and gradients equal those of one example per row.

Legend: B batch, L length of packed rows.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t.data.packing import pack_ids
from t2t.hparams.lstm import lstm_seq2seq
from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.models.lstm import LstmSeq2seq
from t2t.models.transformer import Transformer
from t2t.models.transformer_cmlm import TransformerCmlm
from t2t.models.transformer_lm import TransformerLm
from tests.builders import batch, randomise, tiny_hparams, tokens_spec
from tests.errors import refused

PLACES = np.array([0, 0, 1, 1, 1])
"""Row of each of five examples; a third row is empty."""
VARIANTS = {
    "sinusoids": {},
    "learned": {"positions": "learned"},
    "relative": {"positions": "relative", "max_relative_position": 2},
    "relative biases": {
        "positions": "relative_bias",
        "relative_bias_buckets": 8,
        "relative_bias_max_distance": 5,
        "target_start": "pad",
    },
    "rotary": {"positions": "rotary", "num_kv_heads": 1, "norm_position": "pre"},
    "a window": {"self_attention_window": 3},
    "inputs whose end is not read": {"input_end": False},
}


def loss_and_gradients(model, features):
    with tf.GradientTape() as tape:
        loss, tokens = model.loss_sum(model.body(features), features["targets"])
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    return float(loss), float(tokens), [np.asarray(tf.convert_to_tensor(g)) for g in gradients]


def packed(features, width=20):
    found = {}
    for name, ids in features.items():
        values, lengths = ids[ids != 0], (ids != 0).sum(axis=1)
        found[name], found[f"{name}_positions"] = pack_ids(values, lengths, PLACES, 3, width)
    return found


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("has_inputs", [True, False], ids=["inputs", "no inputs"])
def test_loss_and_gradients_are_those_of_a_row_each(variant, has_inputs):
    features = batch(sources=(5, 3, 7, 1, 4), targets=(4, 6, 2, 5, 1))
    if not has_inputs:
        features = {"targets": features["targets"]}
    model_class, spec = (Transformer, tokens_spec()) if has_inputs else (TransformerLm, tokens_spec(inputs=0))
    model = randomise(model_class(tiny_hparams(packed_length=20, **VARIANTS[variant]), spec))
    loss, tokens, gradients = loss_and_gradients(model, features)
    packed_loss, packed_tokens, packed_gradients = loss_and_gradients(model, packed(features))
    assert packed_tokens == tokens == 18
    np.testing.assert_allclose(packed_loss, loss, rtol=1e-5)
    for variable, expected, found in zip(model.trainable_variables, gradients, packed_gradients, strict=True):
        np.testing.assert_allclose(
            found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max(), err_msg=variable.path
        )


def test_a_trace_takes_packed_rows_of_any_size():
    model = randomise(Transformer(tiny_hparams(packed_length=20), tokens_spec()))
    features = packed(batch(sources=(5, 3, 7, 1, 4), targets=(4, 6, 2, 5, 1)))
    unknown = {name: tf.TensorSpec([None, None], tf.int32) for name in features}
    traced = tf.function(lambda given: model.loss_sum(model.body(given), given["targets"])[0], [unknown])
    np.testing.assert_allclose(traced(features), loss_and_gradients(model, features)[0], rtol=1e-5)


def test_a_model_that_would_mix_the_examples_of_a_row_is_refused():
    others = ("transformer", "transformer_bart", "transformer_lm", "transformer_moe")
    with refused("packed_length=256", "LstmSeq2seq", "packed_length=0", *others):
        LstmSeq2seq(dataclasses.replace(lstm_seq2seq(), packed_length=256), tokens_spec())
    with refused("packed_length=64", "TransformerCmlm"):
        TransformerCmlm(TransformerCmlmHParams(**dict(tiny_hparams(packed_length=64).items())), tokens_spec())
    with refused("packed_length=64", "objective=minimum_risk", "packed_length=0", "objective=likelihood"):
        Transformer(tiny_hparams(packed_length=64, objective="minimum_risk"), tokens_spec())
