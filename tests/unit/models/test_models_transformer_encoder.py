"""The Transformer's encoder for classes: the order of words, and layers that are mixtures of experts."""

import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_moe import TransformerMoeHParams
from t2t.layers.costs import Costed, gathered_costs
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.models.transformer_mlm import TransformerMlm
from t2t.specs.constants import EOS_ID
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import batch, numpy, randomise, total_loss
from tests.errors import refused

SPEC = ProblemSpec(
    name="classes",
    features={
        "inputs": FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=13),
        "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=7),
    },
)
SIZES = {"hidden_size": 8, "filter_size": 6, "num_heads": 2, "num_hidden_layers": 2, "num_experts": 3}
WITHOUT_EXPERTS = {name: size for name, size in SIZES.items() if name != "num_experts"}


def with_experts(balance):
    hparams = TransformerMoeHParams(**SIZES, experts_per_token=1, expert_layer_step=1, expert_balance=balance)
    return randomise(TransformerEncoder(hparams, SPEC))


FEATURES = {"inputs": batch()["inputs"], "targets": np.array([3, 0, 6], np.int32)}


def test_experts_that_are_unevenly_used_cost():
    model, free = with_experts(0.5), with_experts(0.0)
    body = model.body(FEATURES)
    assert isinstance(body, Costed)
    with gathered_costs() as costs:
        x = model.positions(model.source_embedding(FEATURES["inputs"]))
        model.encoder(x, model.source_embedding.keep(FEATURES["inputs"]))
    assert len(costs.per_target) == 2
    assert float(body.cost_per_target) > 0.1
    np.testing.assert_allclose(float(body.cost_per_target), float(sum(costs.per_target)), rtol=1e-5)
    (without, examples), (with_cost, _) = (total_loss(m, FEATURES) for m in (free, model))
    assert examples == 3
    np.testing.assert_allclose((with_cost - without) / examples, float(body.cost_per_target), rtol=1e-4)
    np.testing.assert_array_equal(numpy(model({"inputs": FEATURES["inputs"]})), numpy(free(FEATURES)))


def test_the_cost_reaches_the_gates():
    model = with_experts(0.5)
    with tf.GradientTape() as tape:
        cost = model.body(FEATURES).cost_per_target
    gates = [v for v in model.trainable_variables if "gate_kernel" in v.path]
    assert len(gates) == 2
    for gradient in tape.gradient(cost, [v.value for v in gates]):
        assert np.abs(gradient).max() > 1e-6


@pytest.mark.parametrize("positions", ["relative", "rotary", "none"])
def test_the_order_of_words_counts_with_positions_in_attention_and_not_without(positions):
    model = randomise(TransformerEncoder(TransformerHParams(**WITHOUT_EXPERTS, positions=positions), SPEC))
    forwards, backwards = (numpy(model({"inputs": np.array([row], np.int32)})) for row in ([3, 4, 5, 6], [6, 5, 4, 3]))
    assert np.allclose(forwards, backwards, rtol=1e-4, atol=1e-5) == (positions == "none")


def test_the_end_of_inputs_may_be_left_unread():
    """Its embedding then changes nothing, neither attention nor the mean."""
    for reads_end in (True, False):
        model = randomise(TransformerEncoder(TransformerHParams(**WITHOUT_EXPERTS, input_end=reads_end), SPEC))
        before = numpy(model(FEATURES))
        table = model.source_embedding.variables[0]
        table.assign(np.where(np.arange(13)[:, None] == EOS_ID, 5.0, numpy(table)))
        assert np.allclose(numpy(model(FEATURES)), before) != reads_end


@pytest.mark.parametrize("model_class", [TransformerEncoder, TransformerMlm])
@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"decoder_layer": "ssru"}, "decoder_layer=self_attention"),
        ({"num_decoder_layers": 2}, "num_decoder_layers=0"),
        ({"target_space_embedding": True}, "target_space_embedding=false"),
    ],
)
def test_hparams_that_only_a_decoder_reads_are_refused(model_class, changes, advice):
    hparams = TransformerHParams(**WITHOUT_EXPERTS, **changes)
    with refused(model_class.__name__, advice):
        model_class.check_hparams(hparams)


def test_images_need_a_learned_vector_for_each_of_their_positions():
    features = {**SPEC.features, "inputs": FeatureSpec(kind=FeatureKind.IMAGE, shape=(6, 5, 3))}
    spec = ProblemSpec(name="pictures", features=features)
    with refused("max_length=29", "pictures", "30"):
        TransformerEncoder(TransformerHParams(**WITHOUT_EXPERTS, positions="learned", max_length=29), spec)
    for changes in ({"positions": "learned", "max_length": 30}, {"max_length": 29}):
        TransformerEncoder(TransformerHParams(**WITHOUT_EXPERTS, **changes), spec)
