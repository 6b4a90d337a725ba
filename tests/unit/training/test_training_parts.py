"""Seeds, loss scale, strategies, weights and the memory estimate."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

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
from tests.errors import refused

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
    assert (float(scale.value()), scale.variables) == (1.0, [])


def test_scale_halves_doubles_and_never_falls_below_one_nor_moves_in_a_rehearsal():
    scale = LossScale(dynamic=True, growth_interval=3)
    scale.update(tf.constant(False), applies=tf.constant(False))
    assert [float(v) for v in scale.variables] == [32768.0, 0]
    found = []
    for finite in (False, True, True, False, True, True, True, True):
        scale.update(tf.constant(finite))
        found.append(float(scale.value()) / 2**15)
    assert found == [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.5, 0.5]
    for _ in range(20):
        scale.update(tf.constant(False))
    assert float(scale.value()) == 1.0
    assert (loss_scale.INITIAL_SCALE, loss_scale.GROWTH_INTERVAL) == (32768.0, 2000), "as published"


# === Strategies ===


@pytest.mark.parametrize("replicas", [1, 2])
def test_replicas_on_the_processor(replicas):
    strategy = build_strategy(worker_cpu=replicas)
    assert strategy.num_replicas_in_sync == replicas
    assert build_strategy(worker_cpu=replicas) is strategy


def test_more_devices_than_there_are_or_weights_in_parts():
    gpus = len(tf.config.list_logical_devices("GPU"))
    assert build_strategy().num_replicas_in_sync == max(1, gpus)
    with refused(f"--worker_gpu={gpus + 1}", gpus):
        build_strategy(worker_gpu=gpus + 1)
    with refused("--worker_cpu=3", 2):
        build_strategy(worker_cpu=3)
    with refused("--weight_shards=2", "TensorFlow"):
        training_engine().devices(worker_cpu=2, weight_shards=2)


# === Weights ===


@pytest.fixture(scope="module")
def step():
    """A step with all kinds of state, which every test sets anew."""
    strategy = build_strategy(worker_cpu=1)
    with strategy.scope():
        model = Transformer(tiny_hparams(num_hidden_layers=1), tokens_spec())
        optimizer = build_optimizer(OptimizerHParams())
    return TensorFlowStep(model, optimizer, strategy, ema_decay=0.9, scale_loss=True)


def changed(arrays):
    return {name: np.asarray(value) + 1 for name, value in arrays.items()}


def check_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert np.asarray(found[name]).tobytes() == np.asarray(value).tobytes(), name


def test_what_is_taken_out_can_be_put_back(step):
    model, optimizer, ema = changed(model_arrays(step)), changed(optimizer_arrays(step)), changed(ema_arrays(step))
    assert {"loss_scale", "loss_scale_good_updates", "adam/iteration"} <= set(optimizer)
    assert not any("learning_rate" in name for name in optimizer)
    assert (len(ema), len(optimizer)) == (len(model), 2 * len(model) + 3)
    restore(step, model, optimizer, ema, "test")
    for found, wanted in ((model_arrays(step), model), (optimizer_arrays(step), optimizer), (ema_arrays(step), ema)):
        check_same(found, wanted)
    restore(step, changed(model), None, None, "test")  # an average that was not saved begins with the weights
    check_same(ema_arrays(step), model_arrays(step))


@pytest.mark.parametrize("group", ["model", "optimizer"])
def test_what_does_not_fit_is_named_and_nothing_is_put_back(step, group):
    before = model_arrays(step)
    arrays = {"model": changed(before), "optimizer": changed(optimizer_arrays(step))}
    lost = next(name for name in arrays[group] if "table" in name)
    del arrays[group][lost]
    with refused("test", 1, lost):
        restore(step, arrays["model"], arrays["optimizer"], None, "test")
    check_same(model_arrays(step), before)


def test_averaged_weights_are_lent_and_given_back_also_after_an_error(step):
    own, averages = model_arrays(step), changed(changed(model_arrays(step)))
    restore(step, own, None, averages, "test")

    def evaluate():
        with evaluated_weights(step):
            check_same(model_arrays(step), averages)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evaluate()
    check_same(model_arrays(step), own)


# === Memory ===


def test_memory_counts_what_there_is_and_is_told_in_one_line():
    model = Transformer(tiny_hparams(num_hidden_layers=1), tokens_spec())
    size = 4 * model.count_params()
    small = estimate(model, batch(), slots=2, accumulates=False)
    assert (small.weights, small.optimizer, small.gradients) == (size, 2 * size, 2 * size)
    assert estimate(model, batch(), slots=3, accumulates=True).gradients == 3 * size
    assert small.total == 5 * size + small.activations
    twice = {name: np.concatenate([ids, ids]) for name, ids in batch().items()}
    large = estimate(model, twice, slots=2, accumulates=False)
    np.testing.assert_allclose(large.activations / small.activations, 2.0, rtol=0.1)
    assert all(f"{part} 0 MiB" in str(small) for part in ("weights", "optimizer", "gradients"))
    assert len(str(small).splitlines()) == 1
