"""Seeds, loss scale, strategies, weights and the memory estimate."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import UserError
from t2t.hparams.groups import OptimizerHParams
from t2t.models.transformer import Transformer
from t2t.training import loss_scale
from t2t.training.engine_choice import training_engine
from t2t.training.loss_scale import LossScale
from t2t.training.memory import estimate
from t2t.training.optimizers import build_optimizer
from t2t.training.seeds import dropout_seed
from t2t.training.tensorflow.distribute import build_strategy
from t2t.training.tensorflow.step import TensorFlowStep
from t2t.training.weights import ema_arrays, evaluated_weights, model_arrays, optimizer_arrays, restore
from tests.builders import batch, tiny_hparams, tokens_spec

# === Seeds ===


def test_seeds_are_all_different_and_leave_room_for_a_layers_number():
    places = itertools.product(range(3), range(1, 40), range(4), range(4))
    seeds = [dropout_seed(*place) for place in places]
    assert len({seed.tobytes() for seed in seeds}) == len(seeds) == 3 * 39 * 16
    assert all(seed.dtype == np.int64 and seed.shape == (2,) for seed in seeds)
    assert min(seed.min() for seed in seeds) >= 0
    assert max(seed.max() for seed in seeds) < 2**62


def test_digits_of_neighbouring_numbers_do_not_run_together():
    assert not np.array_equal(dropout_seed(1, 11, 0, 0), dropout_seed(11, 1, 0, 0))
    assert not np.array_equal(dropout_seed(0, 1, 10, 0), dropout_seed(0, 1, 1, 0))


# === Loss scale ===


def test_without_need_the_scale_is_one_and_has_no_state():
    scale = LossScale(dynamic=False)
    scale.update(tf.constant(False))
    assert float(scale.value()) == 1.0
    assert scale.variables == []


def test_scale_halves_doubles_and_never_falls_below_one(monkeypatch):
    monkeypatch.setattr(loss_scale, "GROWTH_INTERVAL", 3)
    scale = LossScale(dynamic=True)
    found = []
    for finite in (False, True, True, False, True, True, True, True):
        scale.update(tf.constant(finite))
        found.append(float(scale.value()) / 2**15)
    assert found == [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.5, 0.5]
    for _ in range(20):
        scale.update(tf.constant(False))
    assert float(scale.value()) == 1.0


def test_the_published_numbers_of_the_scale():
    assert (loss_scale.INITIAL_SCALE, loss_scale.GROWTH_INTERVAL) == (32768.0, 2000)


# === Strategies ===


@pytest.mark.parametrize("replicas", [1, 2])
def test_replicas_on_the_processor(replicas):
    strategy = build_strategy(worker_cpu=replicas)
    assert strategy.num_replicas_in_sync == replicas
    assert build_strategy(worker_cpu=replicas) is strategy


def test_without_gpus_there_is_one_replica():
    assert build_strategy().num_replicas_in_sync == max(1, len(tf.config.list_logical_devices("GPU")))


def test_weights_are_split_on_jax_alone():
    with pytest.raises(UserError, match=r"--weight_shards=2: with TensorFlow each device has all weights of a replica"):
        training_engine().devices(worker_cpu=2, weight_shards=2)


def test_more_devices_than_there_are():
    gpus = len(tf.config.list_logical_devices("GPU"))
    with pytest.raises(UserError) as error:
        build_strategy(worker_gpu=gpus + 1)
    assert str(error.value) == (
        f"--worker_gpu={gpus + 1}: {gpus} GPUs are visible; ask for at most that many, or 0 for all"
    )
    with pytest.raises(UserError) as error:
        build_strategy(worker_cpu=3)
    assert str(error.value) == (
        "--worker_cpu=3: this process has started TensorFlow with 2; ask in a process of its own"
    )


# === Weights ===


@pytest.fixture
def step():
    strategy = build_strategy(worker_cpu=1)
    with strategy.scope():
        model = Transformer(tiny_hparams(num_hidden_layers=1), tokens_spec())
        optimizer = build_optimizer(OptimizerHParams())
    return TensorFlowStep(model, optimizer, strategy, ema_decay=0.9, scale_loss=True)


def changed(arrays):
    return {name: np.asarray(value) + 1 for name, value in arrays.items()}


def test_what_is_taken_out_can_be_put_back(step):
    model, optimizer, ema = changed(model_arrays(step)), changed(optimizer_arrays(step)), changed(ema_arrays(step))
    assert {"loss_scale", "loss_scale_good_updates", "adam/iteration"} <= set(optimizer)
    assert not any("learning_rate" in name for name in optimizer)
    assert len(ema) == len(model)
    assert len(optimizer) == 2 * len(model) + 3
    restore(step, model, optimizer, ema, "test")
    for found, wanted in ((model_arrays(step), model), (optimizer_arrays(step), optimizer), (ema_arrays(step), ema)):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("group", ["model", "optimizer"])
def test_what_does_not_fit_is_named_and_nothing_is_put_back(step, group):
    before = model_arrays(step)
    arrays = {"model": changed(before), "optimizer": changed(optimizer_arrays(step))}
    lost = next(name for name in arrays[group] if "table" in name)
    del arrays[group][lost]
    with pytest.raises(UserError, match=rf"^test( \(optimizer\))? does not fit the model: 1 missing.*{lost}"):
        restore(step, arrays["model"], arrays["optimizer"], None, "test")
    for name, value in model_arrays(step).items():
        np.testing.assert_array_equal(value, before[name])


def test_an_average_that_was_not_saved_begins_with_the_weights(step):
    restore(step, changed(model_arrays(step)), None, None, "test")
    for name, value in ema_arrays(step).items():
        np.testing.assert_array_equal(value, model_arrays(step)[name])


def test_averaged_weights_are_lent_and_given_back_also_after_an_error(step):
    own, averages = model_arrays(step), changed(ema_arrays(step))
    restore(step, own, None, averages, "test")

    def evaluate():
        with evaluated_weights(step):
            for name, value in averages.items():
                np.testing.assert_array_equal(model_arrays(step)[name], value)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evaluate()
    for name, value in own.items():
        assert model_arrays(step)[name].tobytes() == value.tobytes()


# === Memory ===


def test_memory_counts_what_there_is():
    model = Transformer(tiny_hparams(), tokens_spec())
    size = 4 * model.count_params()
    small = estimate(model, batch(), slots=2, accumulates=False)
    assert (small.weights, small.optimizer, small.gradients) == (size, 2 * size, 2 * size)
    assert estimate(model, batch(), slots=3, accumulates=True).gradients == 3 * size
    assert small.total == 5 * size + small.activations
    twice = {name: np.concatenate([ids, ids]) for name, ids in batch().items()}
    large = estimate(model, twice, slots=2, accumulates=False)
    np.testing.assert_allclose(large.activations / small.activations, 2.0, rtol=0.1)


def test_memory_is_told_in_one_line():
    model = Transformer(tiny_hparams(), tokens_spec())
    text = str(estimate(model, batch(), slots=2, accumulates=False))
    assert text.startswith("about ")
    assert "MiB on each replica (weights 0 MiB, optimizer 0 MiB, gradients 0 MiB, activations" in text


def test_scale_does_not_move_in_a_rehearsal():
    scale = LossScale(dynamic=True)
    scale.update(tf.constant(False), applies=tf.constant(False))
    assert [float(v) for v in scale.variables] == [loss_scale.INITIAL_SCALE, 0]
