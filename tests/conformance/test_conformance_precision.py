"""Under 16-bit activations every registered model computes in float32 what it ranks or passes to a softmax.

Legend: N rows decoded together.
"""

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from t2t.registry import MODELS
from t2t.specs.features import FeatureKind
from tests.builders import randomise, tokens_spec
from tests.conformance.model_cases import features_of, spec_of
from tests.small_models import NAMES, VARIANTS, small_hparams

HALVES = {"mixed_bfloat16": ml_dtypes.bfloat16, "mixed_float16": np.float16}


PRECISE = (
    "default", "relative positions", "rotary positions, shared keys, gates, other norms", "multiplicative attention",
    "a recurrent decoder",
)  # fmt: skip


QUICK = {"default": NAMES, "multiplicative attention": ("lstm_seq2seq_attention",)}
"""Models of each variant in the default tests; other variants have only the Transformer."""


def cases(autoregressive=None):
    """All models, by default mostly in bfloat16: float16 uses the same code."""
    for name in NAMES:
        model_class = MODELS.get(name)
        if autoregressive not in (None, model_class.autoregressive):
            continue
        for variant in PRECISE:
            hparams = small_hparams(model_class, VARIANTS[variant])
            for policy in HALVES if hparams is not None else ():
                is_quick = name in QUICK.get(variant, ("transformer",))
                marks = pytest.mark.exhaustive if policy == "mixed_float16" else pytest.mark.slow
                if is_quick and (policy == "mixed_bfloat16" or (name, variant) == ("transformer", "default")):
                    marks = ()
                yield pytest.param((model_class, hparams, policy), id=f"{name}, {variant}, {policy}", marks=marks)


@pytest.fixture(params=cases(), scope="module")
def case(request):
    return request.param


@pytest.fixture(scope="module")
def model(case):
    model_class, hparams, policy = case
    source, target = model_class.accepts_inputs[0], model_class.accepts_targets[0]
    spec = tokens_spec() if source == target == FeatureKind.TOKENS else spec_of(source, target)
    return randomise(model_class(hparams, spec, dtype=policy), seed=3)


def is_rounded(x, dtype):
    """Whether all numbers can be represented in a 16-bit type; zeros, infinities and mask values are ignored."""
    x = np.asarray(x)
    x = x[(np.abs(x) < 1e4) & (x != 0)]  # some kinds of attention give a state of zeros scores of zero
    return x.size > 0 and bool((x.astype(dtype).astype(np.float32) == x).all())


def spied(monkeypatch):
    """Returns a list that collects all later arguments of softmax and top_k."""
    given = []
    for name in ("softmax", "log_softmax", "top_k"):
        function = getattr(keras.ops, name)

        def spy(x, *args, function=function, **kwargs):
            given.append(x)
            return function(x, *args, **kwargs)

        monkeypatch.setattr(keras.ops, name, spy)
    return given


def test_scores_and_logits_are_products_in_float32(case, model, monkeypatch):
    given = spied(monkeypatch)
    given.append(model({name: tf.constant(array) for name, array in features_of(model).items()}))
    for scores in given:
        assert scores.dtype == tf.float32
        assert not is_rounded(scores, HALVES[case[-1]])


@pytest.mark.parametrize("case", list(cases(autoregressive=True)), indirect=True)
def test_a_step_of_decoding_gives_the_logits_of_its_hidden_states_and_the_rounded_weights(case, model):
    features, half = features_of(model), HALVES[case[-1]]
    encoded = model.encode({"inputs": tf.constant(features["inputs"])}) if model.spec.inputs else None
    prepared, ids = model.prepare_decode(encoded), tf.constant([3, 4, 5])
    cache = model.init_cache(encoded, 3, None)
    hidden, _ = model.step(ids, tf.constant(0), cache, prepared)
    logits, _ = model.decode_step(ids, tf.constant(0), cache, prepared)
    table = np.asarray(model.top.kernel()).astype(half).astype(np.float32)
    assert (hidden.dtype, logits.dtype) == (half, tf.float32)
    np.testing.assert_allclose(logits, hidden.numpy().astype(np.float32) @ table.T, rtol=1e-5, atol=1e-5)
