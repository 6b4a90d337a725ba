"""Properties of every registered model, on texts and other kinds of features, in several variants of its hparams.

Legend: B batch, S source length, T target length, N rows decoded together.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t.backends.tensorflow.update import LocalGradient
from t2t.backends.update import LossFunction
from t2t.checkpoints.compatibility import require_exact, vocabulary_axis
from t2t.checkpoints.store import CheckpointStore
from t2t.inference import growing_search
from t2t.inference.batch_search import SearchRows, concat_batches
from t2t.layers.mode import Costed, in_mode
from t2t.models.base import SequenceModel
from t2t.registry import MODELS
from t2t.search.settings import SearchSettings
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.training.objectives import TrainingObjective
from t2t.training.weights import assign_model
from tests.builders import batch, numpy, randomise, shapes_alone, total_loss
from tests.conformance.model_cases import CACHES, QUICK, data_of, features_of, is_of_texts, kind_cases, text_cases
from tests.errors import refused
from tests.kinds import LENGTHS
from tests.small_models import NAMES, small_hparams
from tests.unit.models.references import SIZES

OFFSET_OF_ALL_SCORES = "key_bias"
"""Softmax ignores an offset of all scores, so the gradient of a key bias is zero except for rounding."""


COMPILED = {"transformer": ("default", "a recurrent decoder"), "lstm_seq2seq": ("default",), "others": ()}
"""Variants that the slow tests compile; XLA supports some of these models and refuses others."""


UNREFERENCED = {**QUICK, **dict.fromkeys(SIZES, ())}
"""Models that `tests/unit/models` compares with references, padding included, are left to the exhaustive tests."""
RECURRENT = ("grid_lstm", "lstm_seq2seq", "rctm_1", "rctm_2", *(name for name in SIZES if name.endswith("neural_gpu")))
NO_ATTENTION = (*RECURRENT, "byte_net", "byte_net_lm", "recurrent_byte_net", "wavenet")
ATTENTIVE = {**QUICK, **dict.fromkeys(NO_ATTENTION, ())}
"""So are the steps of those without attention."""
every_text = pytest.mark.parametrize("case", [*text_cases()], indirect=True)
every_kind = pytest.mark.parametrize("case", [*text_cases(), *kind_cases()], indirect=True)


@pytest.fixture(scope="module")
def fresh(case):
    """Another model of the case, with different weights."""
    model_class, hparams, spec = case
    return model_class(hparams, spec)


@every_text
def test_random_weights_begin_with_different_values(fresh):
    """As an initializer that is used twice would not give them."""
    values = [v.numpy() for v in fresh.trainable_variables]
    drawn = [array.tobytes() for array in values if 1 < array.size == np.unique(array).size]  # no biases of gates
    assert len(set(drawn)) == len(drawn)


def gradient_of(model, features, *, xla):
    """Gradient, summed loss and number of targets of a batch, as training computes them, with dropout."""
    features = {name: tf.constant(ids) for name, ids in features.items()}
    gradient = LocalGradient(LossFunction(model, TrainingObjective().loss), xla=xla)
    variables = [v.value for v in (*model.trainable_variables, *model.non_trainable_variables)]
    gradient.trace("", variables, features)

    @tf.function(autograph=False)
    def call(features, seed):
        return gradient("", variables, features, seed, 1.0)[:3]

    return call(features, tf.constant([1, 2], tf.int64))


@every_text
def test_every_weight_has_a_path_of_its_own_from_the_start_by_which_it_is_saved_and_loaded(
    model, fresh, features, logits, tmp_path
):
    paths = [v.path for v in fresh.variables]
    assert len(set(paths)) == len(paths) > 5
    assert all(path.startswith(f"{model.registered_name()}/") for path in paths)
    store = CheckpointStore(tmp_path)
    store.save(7, model={v.path: np.asarray(v) for v in model.variables}, optimizer={}, state={})
    weights = store.load_model("latest").weights
    require_exact(weights, {v.path: tuple(v.shape) for v in fresh.variables}, "test")
    assert not all(np.array_equal(weights[v.path], v) for v in fresh.variables)
    assign_model(fresh, weights)
    np.testing.assert_array_equal(numpy(fresh(features)), numpy(logits))
    assert [v.path for v in fresh.variables] == paths == [v.path for v in model.variables]


@every_text
@pytest.mark.parametrize("grown", [{"inputs": 1, "targets": 1}, {"inputs": 1, "targets": 2}], ids=["shared", "apart"])
def test_the_weights_of_a_vocabulary_are_those_whose_shape_it_gives(case, grown):
    """If vocabularies are apart, one grows by two ids, so that weights of both can be told apart."""
    model_class, hparams, spec = case
    spec = dataclasses.replace(spec, shared_vocabulary=spec.shared_vocabulary and len(set(grown.values())) == 1)
    larger = {
        name: dataclasses.replace(feature, vocab_size=feature.vocab_size + grown[name])
        for name, feature in spec.features.items()
    }
    with shapes_alone():
        smaller, grown_one = (model_class(hparams, one) for one in (spec, dataclasses.replace(spec, features=larger)))
        after = {v.path: v.shape for v in grown_one.variables}
        found = {v.path: np.subtract(after[v.path], v.shape) for v in smaller.variables if after[v.path] != v.shape}
        for path, more in found.items():
            assert np.flatnonzero(more).tolist() == [vocabulary_axis(path, len(more))], path
        for size in {grown[name] for name in spec.features}:
            names = [name for name in spec.features if grown[name] == size]
            expected = {path for path, more in found.items() if more.sum() == size}
            assert smaller.vocabulary_weights(names) == expected != set()


@every_kind
def test_the_loss_is_the_cross_entropy_of_the_logits_and_its_gradients_reach_every_weight(model, features, logits):
    """The loss includes the costs of models that have some. A row of padding in the batch adds nothing."""
    given = features_of(model)
    if model.spec.targets.kind == FeatureKind.TOKENS:
        given = {name: np.concatenate([array, np.zeros_like(array[:1])]) for name, array in given.items()}
    with tf.GradientTape() as tape:
        body = model.body(given)
        loss_sum, count = model.loss_sum(body, given["targets"])
    if model.mask_predicts:  # whose loss is not of the logits
        expected, _ = total_loss(model, features)
    else:
        cost = float(body.cost + count * body.cost_per_target) if isinstance(body, Costed) else 0.0
        expected = cross_entropy(numpy(logits), features) + cost
    assert (float(loss_sum), float(count)) == (pytest.approx(expected, rel=1e-4), data_of(features).sum())
    gradients = tape.gradient(loss_sum, [v.value for v in model.trainable_variables])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert gradient is not None, variable.path
        steepest = np.abs(tf.convert_to_tensor(gradient)).max()
        assert np.isfinite(steepest), variable.path
        least = 1e-4 if is_of_texts(model) else 0.0 if "noise_kernel" in variable.path else 1e-6
        assert steepest > least or OFFSET_OF_ALL_SCORES in variable.path, variable.path


def cross_entropy(logits, features):
    """Returns the sum over all targets, a tenth of which is smoothed over all classes."""
    log_probs = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
    log_probs = log_probs - logits.max(-1, keepdims=True)
    gold = np.take_along_axis(log_probs, features["targets"][..., None], axis=-1)[..., 0]
    return -(0.9 * gold + 0.1 * log_probs.mean(-1))[data_of(features)].sum()


@pytest.mark.slow
@pytest.mark.parametrize("case", [*text_cases(quick=COMPILED)], indirect=True)
def test_compiled_by_xla_loss_and_gradients_are_the_same(case):
    """With the same dropout masks. Scores of experts differ so much that their noise, which XLA draws with another
    formula, changes nothing."""
    model_class, hparams, spec = case
    rates = {name: 0.3 for name, _ in hparams.items() if name.endswith("dropout")}
    model = randomise(model_class(hparams.replace(**rates), spec), seed=3)
    for variable in model.variables:
        if variable.path.endswith("gate_kernel"):
            variable.assign(1e4 * np.asarray(variable))
    features = features_of(model)
    if not model.compiles_with_xla:
        with pytest.raises(tf.errors.InvalidArgumentError):
            gradient_of(model, features, xla=True)
        return
    plain, compiled = (gradient_of(model, features, xla=xla) for xla in (False, True))
    for expected, found in zip(plain, compiled, strict=True):
        largest = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * largest)


@every_text
def test_of_tokens_that_are_all_dropped_a_model_knows_their_number_alone(model, features, logits):
    """`symbol_dropout` applies to all tokens that a model reads, of inputs and targets."""
    others = features_of(model, wide=True, seed=1)
    dropped = [numpy(model(one, seed=tf.constant([1, 2], tf.int64))) for one in (features, others)]
    keep = features["targets"] != 0
    np.testing.assert_allclose(dropped[0][keep], dropped[1][keep], rtol=1e-5, atol=1e-5)
    assert not np.allclose(dropped[0][keep], numpy(logits)[keep], atol=1e-2)


@every_text
def test_logits_are_float32_and_finite_at_every_position(model, logits):
    assert logits.dtype == tf.float32
    assert logits.shape == (3, 8, model.spec.targets.vocab_size)
    assert np.isfinite(numpy(logits)).all()


def tolerance(model):
    return {"rtol": 1e-4 if is_of_texts(model) else 1e-3, "atol": 1e-4}


@pytest.mark.parametrize("case", [*text_cases(quick=UNREFERENCED), *kind_cases()], indirect=True)
def test_neither_the_padding_nor_the_rest_of_a_batch_changes_the_logits_of_a_row(model, features, logits):
    """The row with the longest input is computed by itself, without padding."""
    kinds = {name: feature.kind for name, feature in model.spec.features.items()}
    row = {name: array[2] for name, array in features.items()}
    row = {name: array[: length_of(array)] if kinds[name] in LENGTHS else array for name, array in row.items()}
    alone = numpy(model({name: array[None] for name, array in row.items()}))[0]
    found = numpy(logits)[2]
    np.testing.assert_allclose(found[: len(alone)] if alone.ndim > 1 else found, alone, **tolerance(model))


def length_of(array):
    """Returns the number of positions up to the last that is data."""
    return 1 + int(np.flatnonzero(array.reshape(len(array), -1).any(axis=1))[-1])


@pytest.mark.parametrize("case", [*text_cases(autoregressive=True, quick=ATTENTIVE)], indirect=True)
def test_cached_decoding_has_the_logits_and_the_attention_of_the_full_forward_pass(case, model):
    """So no later target changes logits. Recording attention changes none; the weights of each query sum to one."""
    features = features_of(model, targets=(4, 2, 3))
    targets, plain = features["targets"], numpy(model(features))
    whole = {}
    with in_mode(record=whole):
        np.testing.assert_array_equal(numpy(model(features)), plain)
    encoded = model.encode(features)
    cache, last = model.init_cache(encoded, 3, 8), np.zeros(3, np.int32)
    steps = {}
    with in_mode(record=steps):
        for position in range(targets.shape[1]):
            logits, cache = model.decode_step(last, position, cache, encoded)
            last = targets[:, position]
            keep = last != 0
            np.testing.assert_allclose(numpy(logits)[keep], plain[:, position][keep], rtol=1e-4, atol=1e-4)
    assert set(steps) == {path for path in whole if "/encoder/" not in path}
    for path, parts in whole.items():
        whole_BHTS = np.concatenate([numpy(part) for part in parts], axis=2)
        np.testing.assert_allclose(whole_BHTS.sum(axis=-1), 1.0, rtol=1e-5)
        for t, weights_BH1S in enumerate(map(numpy, steps.get(path, []))):
            keep, of_target = targets[:, t] != 0, whole_BHTS[:, :, t - 4]  # inputs stand before targets in some layers
            found = weights_BH1S.reshape(*of_target.shape[:2], -1)
            least = min(found.shape[-1], of_target.shape[-1])
            assert not found[keep][..., least:].any()
            np.testing.assert_allclose(found[keep][..., :least], of_target[keep][..., :least], rtol=1e-4, atol=1e-6)
            assert not of_target[keep][..., least:].any()


@pytest.mark.parametrize(
    "case", [*text_cases(autoregressive=True, variants=CACHES, quick={**COMPILED, "lstm_seq2seq": ()})], indirect=True
)
def test_sentences_of_two_batches_that_go_on_together_find_what_each_finds_alone(case, model, monkeypatch):
    monkeypatch.setattr(growing_search, "TOKENS_PER_CALL", 3)
    search = growing_search.GrowingSearch(model, SearchSettings(beam_size=2, only_best=False), extra_length=4)
    read = features_of(model)["inputs" if model.spec.inputs else "targets"]
    rows = [[read[row, : (read[row] != 0).sum()]] for row in range(3)]

    def advance(batches):
        found, going = [], []
        for one in batches:
            some, rest = search.advance(one, search.step_weights())
            found += some
            going += [] if rest is None else [rest]
        return found, going

    def start():
        return [search.start(np.array([n]), np.array(row), SearchRows(np.array([n]))) for n, row in enumerate(rows)]

    apart, going = [], start()
    while going:
        found, going = advance(going)
        apart += found
    joined, going = advance(start())
    while going:
        found, going = advance([concat_batches(going)])
        joined += found
    apart, joined = (by_sentence(found) for found in (apart, joined))
    assert apart.keys() == joined.keys() == {0, 1, 2}
    for number, (ids, scores) in apart.items():
        assert joined[number][0] == ids
        np.testing.assert_allclose(joined[number][1], scores, rtol=1e-4, atol=1e-5)


def by_sentence(found):
    return {
        number: ([ids[: lengths[k]].tolist() for k, ids in enumerate(result.ids[row])], result.scores[row])
        for numbers, result in found
        for row, (number, lengths) in enumerate(zip(numbers, result.lengths, strict=True))
    }


@pytest.mark.parametrize(
    "case", [one for one in text_cases(autoregressive=False) if not one.values[0][0].mask_predicts], indirect=True
)
def test_an_answer_from_inputs_alone_is_what_is_given_beside_targets(case, model):
    """Targets change only the number of logits."""
    inputs = batch()["inputs"]
    alone = numpy(model({"inputs": inputs}))
    for targets in (batch()["targets"], batch(seed=4, targets=(5, 1, 7))["targets"]):
        beside = numpy(model({"inputs": inputs, "targets": targets}))
        assert beside.shape[:2] == targets.shape
        np.testing.assert_allclose(beside, alone[:, : targets.shape[1]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_features_that_a_model_cannot_take_are_refused_by_name(name):
    model_class = MODELS.get(name)
    assert issubclass(model_class, SequenceModel)
    kinds = {kind for kind in FeatureKind if kind not in model_class.accepts_inputs}
    for kind in kinds:
        targets = FeatureSpec(kind=model_class.accepts_targets[0], vocab_size=9)
        spec = ProblemSpec(name="strange", features={"inputs": FeatureSpec(kind=kind), "targets": targets})
        with refused("strange", kind or "absent"):
            model_class(small_hparams(model_class, {}), spec)
