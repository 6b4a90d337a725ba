"""Models of masked words and of classes against independent ones in numpy: CMLM, MLM, the encoder for classes.

Legend: B batch, S source length, T target length, N words of a target.
"""

import collections

import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.hparams.transformer_moe import TransformerMoeHParams
from t2t.hparams.transformer_tasks import transformer_mlm_tiny
from t2t.layers.mode import Costed, Costs, in_mode
from t2t.models.transformer import Transformer
from t2t.models.transformer_cmlm import TokenMasks, TransformerCmlm
from t2t.models.transformer_encoder import TransformerEncoder, TransformerMlm
from t2t.specs import EOS_ID
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import batch, numpy, randomise, tiny_hparams, tokens_spec, total_loss, weights_of
from tests.errors import refused
from tests.models import dropout_seed, sentences
from tests.reference import transformer as plain
from tests.unit.models.references import reference_of

# === Conditional masked language models ===

END = 1


def cmlm(**changes):
    """Two layers, d 8, two heads, without dropout; every weight is random."""
    hparams = TransformerCmlmHParams(**dict(tiny_hparams(**changes).items()))
    return randomise(TransformerCmlm(hparams, tokens_spec()))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_position": "pre", "attention_bias": True, "positions": "learned"},
        {"positions": "relative", "max_relative_position": 2},
        {"positions": "rotary", "self_attention_window": 4},
    ],
    ids=["paper", "pre-norm, learned positions", "relative positions", "rotary positions, a window"],
)
def test_logits_given_some_words_are_those_of_the_reference(changes):
    """Each pair four times, with other words masked."""
    masks = ((), (0,), (1, 2), (0, 1, 2, 3, 4))
    model, features = cmlm(**changes), {name: np.tile(ids, (4, 1)) for name, ids in batch(widths=(9, 8)).items()}
    expected, targets = reference_of(model), features["targets"]
    is_masked = np.array([np.isin(np.arange(8), masked) for masked in masks for _ in range(3)]) & (targets > END)
    encoded = model.encode({"inputs": features["inputs"]})
    hidden = model.decode(np.where(is_masked, 0, targets), encoded, targets != 0)
    logits, lengths = numpy(model.top(hidden)), numpy(model.length_log_probs(encoded))
    for row, (source, target) in enumerate(sentences(features)):
        memory, of_lengths = expected.read(source)
        of_row = expected.fill(hidden_words(target, is_masked[row]), memory)
        np.testing.assert_allclose(logits[row, : len(target)], of_row, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(lengths[row], of_lengths, rtol=2e-4, atol=2e-5)
        assert of_row.std() > 0.1


def hidden_words(target, is_masked):
    return [None if hides else word for word, hides in zip(target, is_masked, strict=False)]


def test_the_loss_is_of_masked_words_and_of_the_length():
    """Written out with the smoothed distribution of words; the length is not smoothed."""
    model, features = cmlm(label_smoothing=0.1), batch(widths=(9, 8))
    body = model.body(features, seed=dropout_seed(5))
    is_masked, expected, count = np.asarray(body.is_masked), 0.0, 0
    assert not is_masked[features["targets"] <= END].any()
    ours = reference_of(model)
    for row, (source, target) in enumerate(sentences(features)):
        memory, of_lengths = ours.read(source)
        logits = ours.fill(hidden_words(target, is_masked[row]), memory)
        places = np.flatnonzero(is_masked[row])
        assert 1 <= len(places) <= len(target) - 1
        expected += plain.smoothed_loss(logits[places], [target[i] for i in places], 0.1) - of_lengths[len(target) - 1]
        count += len(places) + 1
    loss, tokens = model.loss_sum(body, features["targets"])
    assert float(tokens) == count
    np.testing.assert_allclose(float(loss), expected, rtol=1e-4)


def test_without_a_seed_all_words_are_masked_and_the_end_stands_for_the_length():
    model, features = cmlm(label_smoothing=0.0), batch(widths=(9, 8))
    log_probs, correct = model.score_targets(features)
    log_probs, correct, ours = numpy(log_probs), np.asarray(correct), reference_of(model)
    for row, (source, target) in enumerate(sentences(features)):
        memory, of_lengths = ours.read(source)
        words = len(target) - 1
        logits = ours.fill([None] * words + [END], memory)[:words]
        of_words = [np.log(plain.softmax(logits[i]))[word] for i, word in enumerate(target[:-1])]
        np.testing.assert_allclose(log_probs[row, : words + 1], [*of_words, of_lengths[words]], rtol=1e-4, atol=1e-4)
        assert (log_probs[row, words + 1 :] == 0).all()
        assert correct[row, words] == (of_lengths.argmax() == words)
        assert correct[row, :words].tolist() == (logits.argmax(axis=1) == target[:-1]).tolist()
    loss, tokens = total_loss(model, features)
    assert tokens == (features["targets"] != 0).sum()
    np.testing.assert_allclose(loss, -log_probs.sum(), rtol=1e-5)


def test_targets_of_an_end_alone_have_a_length_and_no_words():
    model = cmlm()
    features = {"inputs": batch()["inputs"], "targets": np.array([[1, 0], [5, 1], [0, 0]], np.int32)}
    for seed in (None, dropout_seed(1)):
        loss, tokens = total_loss(model, features, seed)
        assert tokens == 1 + 2
        assert np.isfinite(loss)


def test_how_many_words_are_masked_is_uniform_and_so_is_which():
    """Of 4 words, 1 to 4 with probability 1/4 each, so that a word is masked with 5/8."""
    masks = TokenMasks(name="masks")
    masks.build()
    is_word = np.tile(np.array([1, 1, 1, 1, 0, 0], bool), (20_000, 1))
    found = np.asarray(masks(is_word, seed=dropout_seed(3)))
    assert not found[:, 4:].any()
    counts = collections.Counter(found.sum(axis=1).tolist())
    assert counts.keys() == {1, 2, 3, 4}
    assert max(abs(n / 20_000 - 0.25) for n in counts.values()) < 0.02
    assert np.abs(found[:, :4].mean(axis=0) - 0.625).max() < 0.02
    pairs_of_two = collections.Counter(map(tuple, found[found.sum(axis=1) == 2][:, :4].tolist()))
    assert len(pairs_of_two) == 6
    assert max(abs(n / sum(pairs_of_two.values()) - 1 / 6) for n in pairs_of_two.values()) < 0.03


def test_masks_follow_the_seed_and_nothing_else():
    model, features = cmlm(), batch(targets=(9, 12, 7))
    first, again, other = (np.asarray(model.body(features, seed=dropout_seed(n)).is_masked) for n in (2, 2, 3))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    words = {**features, "targets": np.where(features["targets"] > END, 2, features["targets"])}
    np.testing.assert_array_equal(first, model.body(words, seed=dropout_seed(2)).is_masked)


def test_xla_masks_the_same_words():
    masks, is_word = TokenMasks(name="masks"), tf.constant(batch(widths=(8, 8))["targets"] > END)
    masks.build()
    eager, compiled = (call(is_word, seed=dropout_seed(2)) for call in (masks, tf.function(masks, jit_compile=True)))
    np.testing.assert_array_equal(eager, compiled)


def test_other_models_predict_no_masked_tokens():
    with refused("decode_method=mask_predict", "Transformer"):
        Transformer(tiny_hparams(decode_method="mask_predict"), tokens_spec())


# === Masked language models ===

MLM_SIZES = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 2, "max_length": 16}
MASKED = {
    "inputs": np.array([[2, 5, 6, 7, 1, 0], [3, 2, 1, 0, 0, 0]], np.int32),
    "targets": np.array([[4, 0, 0, 7, 0, 0], [0, 9, 0, 0, 0, 0]], np.int32),
}
"""Of the first text, tokens 0 (hidden) and 3 (kept) are predicted, of the second token 1."""


def mlm(**changes):
    hparams = TransformerHParams(**MLM_SIZES, layer_prepostprocess_dropout=0.0, label_smoothing=0.0, **changes)
    return randomise(TransformerMlm(hparams, tokens_spec()))


def test_logits_are_the_encoders_output_times_the_table_and_the_loss_is_of_what_was_chosen():
    model = mlm(positions="learned", activation="gelu")
    weights = weights_of(model)
    shape = plain.Architecture(
        heads=2, encoder_layers=2, decoder_layers=0, positions="learned", activation="gelu", shared_embedding=False
    )
    reference, expected = plain.Transformer(weights, shape), 0.0
    logits = numpy(model(MASKED))
    for row, inputs in enumerate(MASKED["inputs"]):
        states = reference.encode(inputs[inputs != 0].tolist())
        of_row = np.array([weights["source_embedding/table"] @ x for x in states])
        np.testing.assert_allclose(logits[row, : len(states)], of_row, rtol=1e-4, atol=1e-4)
        places = np.flatnonzero(MASKED["targets"][row])
        expected += plain.smoothed_loss(of_row[places], MASKED["targets"][row, places], 0.0)
    loss, tokens = total_loss(model, MASKED)
    assert tokens == 3
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


def test_what_was_not_chosen_is_not_predicted():
    model = mlm()
    scores = model.score_targets(MASKED)
    assert (numpy(scores.log_probs)[MASKED["targets"] == 0] == 0).all()
    assert (numpy(scores.log_probs)[MASKED["targets"] != 0] < 0).all()


def test_every_weight_is_one_of_the_classifiers_by_name():
    label = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=3)
    spec = ProblemSpec(name="classes", features={"inputs": tokens_spec().inputs, "targets": label})
    hparams = transformer_mlm_tiny()
    classifier = {v.path: tuple(v.shape) for v in TransformerEncoder(hparams, spec).variables}
    masked = {v.path: tuple(v.shape) for v in TransformerMlm(hparams, tokens_spec()).variables}
    assert masked.items() <= classifier.items()
    assert {path.rpartition("/")[0] for path in classifier.keys() - masked.keys()} == {"transformerencoder/class_label"}


# === The encoder for classes: the order of words, and layers that are mixtures of experts ===

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
    costs = Costs()
    with in_mode(costs=costs):
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
