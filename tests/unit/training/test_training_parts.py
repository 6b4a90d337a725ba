"""Seeds, loss scale, strategies, weights, memory, cost and graph of an update, precision, errors of XLA."""

import dataclasses
import functools
import itertools
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t.backends import backend
from t2t.backends.base import ComputeCost
from t2t.backends.tensorflow.devices import build_strategy
from t2t.backends.tensorflow.functions import ReplicaFunction
from t2t.backends.update import GROWTH_INTERVAL, INITIAL_SCALE, LossScale, dropout_seed
from t2t.errors import MachineError
from t2t.hparams.groups import OptimizerHParams, TrainHParams
from t2t.hparams.lstm import LstmHParams
from t2t.models.lstm import LstmSeq2seq
from t2t.models.transformer import Transformer
from t2t.training.cost import estimate, memory_limit, peak_memory, update_cost, used_memory
from t2t.training.optimizers import build_optimizer
from t2t.training.step import UpdateStep
from t2t.training.weights import ema_arrays, evaluated_weights, model_arrays, optimizer_arrays, restore
from tests.builders import batch, tiny_hparams, tiny_transformer, tokens_spec
from tests.errors import refused
from tests.slopes import slope_step, slopes


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
    assert (INITIAL_SCALE, GROWTH_INTERVAL) == (32768.0, 2000), "as published"


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
        backend().devices(worker_cpu=2, weight_shards=2)


# === Weights ===
@pytest.fixture(scope="module")
def step():
    """A step with all kinds of state, which every test sets anew."""
    devices = backend().devices(worker_cpu=1)
    with devices.scope():
        model = Transformer(tiny_hparams(num_hidden_layers=1), tokens_spec())
        optimizer = build_optimizer(OptimizerHParams())
    return UpdateStep(model, optimizer, devices, ema_decay=0.9, scale_loss=True)


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


@pytest.mark.parametrize(("name", "path", "limit"), [
    ("4:cpu,cpuacct:/\n5:memory:/of/the/host\n0::/", "memory/memory.limit_in_bytes", 1000),
    ("0::/slice/job", "slice/memory.max", 1000),
    ("0::/slice/job", "slice/job/memory.max", "max"),
    ("4:cpu:/job", "cpu/job/memory.max", 1000),
])  # fmt: skip
def test_the_memory_of_a_container_is_that_of_its_control_group(name, path, limit, tmp_path):
    for file, text in (("proc/self/cgroup", name), (f"sys/fs/cgroup/{path}", limit)):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(f"{text}\n")
    of_machine = memory_limit(tmp_path / "none")
    assert memory_limit(tmp_path) == (limit if limit == 1000 and not path.startswith("cpu/") else of_machine)
    assert 2**20 < peak_memory() < of_machine


def test_memory_that_a_device_does_not_tell_is_none():
    devices = types.SimpleNamespace(names=["CPU:0"], are_gpus=True)
    assert backend().device_memory("CPU:0")[0] == 0
    assert "CPU:0" in used_memory(devices)


# === Cost, against a count by hand, product by product ===
def by_hand(rows, S, T, D, F, N, V):
    """Section 3 of the paper, written out: 2 m k n for each product of (m, k) and (k, n), times three for training."""
    project, inner = 2 * D * D, 2 * D * F  # of one position
    encoder = N * (S * (4 * project + 2 * inner) + 2 * 2 * S * S * D)
    of_target = 4 * project + 2 * project + 2 * inner  # self-attention; query and output of the other; feed-forward
    decoder = N * (T * of_target + S * 2 * project + 2 * 2 * T * T * D + 2 * 2 * T * S * D)
    return 3 * rows * (encoder + decoder + T * 2 * D * V)


@pytest.mark.parametrize(("rows", "S", "T"), [(4, 9, 3), (1, 5000, 4000)])
def test_a_transformer(rows, S, T):
    model = tiny_transformer(tokens_spec(inputs=13, targets=13))
    batch = {"inputs": np.zeros((rows, S), np.int32), "targets": np.zeros((rows, T), np.int32)}
    assert update_cost(model, batch) == ComputeCost(by_hand(rows, S, T, D=8, F=12, N=2, V=13), loops=False)


def test_a_loop_without_products_leaves_nothing_out():
    """SSRUs in the decoder: two products of (D, D) for each position in place of self-attention's, and a recurrence."""
    model = tiny_transformer(tokens_spec(inputs=13, targets=13), decoder_layer="ssru")
    rows, S, T, D, N = 2, 5, 7, 8, 2
    batch = {"inputs": np.zeros((rows, S), np.int32), "targets": np.zeros((rows, T), np.int32)}
    saved = 3 * rows * N * (T * (4 - 2) * 2 * D * D + 2 * 2 * T * T * D)
    assert update_cost(model, batch) == ComputeCost(by_hand(rows, S, T, D, 12, N, 13) - saved, loops=False)


def test_a_language_model_has_no_encoder():
    model = tiny_transformer(tokens_spec(inputs=0))
    T, D, F, N, V = 6, 8, 12, 2, 13
    expected = N * (T * (4 * 2 * D * D + 2 * 2 * D * F) + 2 * 2 * T * T * D) + T * 2 * D * V
    assert update_cost(model, {"targets": np.zeros((1, T), np.int32)}).flops == 3 * expected


def test_loops_are_left_out_and_told():
    """One LSTM layer: outside the loops are only x W, with W of (D, 4D), of both sides, and the logits."""
    model = LstmSeq2seq(LstmHParams(hidden_size=8, num_hidden_layers=1), tokens_spec())
    batch = {"inputs": np.zeros((3, 5), np.int32), "targets": np.zeros((3, 4), np.int32)}
    assert update_cost(model, batch) == ComputeCost(3 * 3 * 2 * (9 * 8 * 32 + 4 * 8 * 13), loops=True)


def test_the_base_model_by_the_paper():
    """The figures of docs/numerics.md: base 9.5e17 and big 9.7e18 for the updates of Table 2's runs."""
    for sizes, updates, expected in (
        ({"D": 512, "F": 2048}, 100_000, 9.5e17),
        ({"D": 1024, "F": 4096}, 300_000, 9.7e18),
    ):
        pairs = 25_000 / 30
        cost = by_hand(1, 30, 30, **sizes, N=6, V=37_000) * pairs * updates
        assert cost == pytest.approx(expected, rel=0.01)


# === Size of the graph of an update, which is traced and optimized before the first update ===

PER_WEIGHT = 3
"""Operations per replica and weight: placeholders of the weight and its slots."""
PER_REPLICA = 150
"""Maximum number of other operations per replica: functions, sums, norm, loss scale, and reductions."""


@functools.cache
def step_of(replicas):
    """Returns a step that has traced an update; its encoder is frozen."""
    devices = backend().devices(worker_cpu=replicas)
    with devices.scope():
        model = Transformer(tiny_hparams(num_hidden_layers=1), tokens_spec())
        model.encoder.trainable = False
        step = UpdateStep(model, build_optimizer(OptimizerHParams()), devices)
    ids = np.ones((2, 3), np.int32)
    step.warm_up([[{"inputs": ids, "targets": ids}] * replicas])
    return step


def graph_of(replicas):
    """Returns the graph of an update."""
    (update,) = step_of(replicas)._update._compiled.values()
    return update.get_concrete_function().graph


def test_a_replica_adds_no_model_to_the_graph():
    """It calls the one function that computes the gradient, and the one that applies it."""
    one, two = graph_of(1), graph_of(2)
    added = len(two.get_operations()) - len(one.get_operations())
    weights = len(step_of(1).model.trainable_variables)
    assert 0 < added <= PER_WEIGHT * weights + PER_REPLICA
    of_one, of_two = ([len(f.node_def) for f in graph.as_graph_def().library.function] for graph in (one, two))
    assert len(of_one) == len(of_two)
    joined = sum(of_two) - sum(of_one)  # the parts of the gradient are joined, and cut again
    assert 0 <= joined <= 4 * weights


def test_what_one_replica_alone_has_is_refused():
    held, given = tf.Variable(2.0), tf.TensorSpec([], tf.float32)
    with refused(1, "add_weight"):
        ReplicaFunction(lambda x: held * x, [given])
    assert ReplicaFunction(lambda x: 2.0 * x, [given]).traced.captured_inputs == []


def test_the_functions_of_an_update_hold_no_weight_and_name_no_device():
    """Not even a frozen weight: all replicas would use that of the first one."""
    step = step_of(2)
    update = step._update
    functions = [*update._gradient._functions.values(), *update._update._functions.values()]
    assert step.model.non_trainable_variables
    assert len(functions) == 2
    assert [held for function in functions for held in function.traced.captured_inputs] == []
    assert {node.device for function in functions for node in function.traced.graph.as_graph_def().node} == {""}


def test_tracing_an_update_gives_no_values_to_another_models_weights():
    """A model built only from shapes, to count weights, may be larger than memory."""
    given = []
    with keras.StatelessScope(initialize_variables=False):
        keras.Variable(lambda shape, dtype: given.append(shape) or np.zeros(shape, dtype), shape=(3,))
    slope_step()([[slopes([1.0, 1.0])]], 1, 1.0)
    assert given == []


def test_no_operation_of_an_update_waits_for_the_host():
    """There is no branch, for which a device would wait until its condition is known, and no Python."""
    graph = graph_of(1)
    nodes = [*graph.as_graph_def().node, *(n for f in graph.as_graph_def().library.function for n in f.node_def)]
    assert {node.op for node in nodes} & {"If", "StatelessIf", "PyFunc", "EagerPyFunc", "PyFuncStateless"} == set()


# === Precision of the process and of a run's model ===

CHOICES = {
    "float32": (False, "float32"),
    "tensorfloat32": (True, "float32"),
    "mixed_bfloat16": (True, "mixed_bfloat16"),
    "mixed_float16": (True, "mixed_float16"),
}
"""Whether TensorFloat-32 is allowed, and the dtype policy."""


@pytest.fixture(autouse=True)
def as_it_was():
    """Restores the process's settings after each test."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    yield
    tf.config.experimental.enable_tensor_float_32_execution(before)


def test_float32_is_float32_and_the_others_allow_tensorfloat32():
    (field,) = (one for one in dataclasses.fields(TrainHParams) if one.name == "precision")
    assert ("auto", *CHOICES) == field.metadata["choices"]
    for precision, (allowed, policy) in (*CHOICES.items(), *reversed(CHOICES.items())):
        assert backend().apply_precision(precision) == policy
        assert tf.config.experimental.tensor_float_32_execution_enabled() is allowed


# === Errors of XLA ===

BATCH = {"inputs": np.zeros((2, 8))}


@tf.function(jit_compile=True)
def uncompilable(x):
    return tf.strings.length(tf.strings.as_string(x))


def test_an_operation_that_xla_does_not_have_is_one_line_that_says_what_to_do():
    with refused("xla=on", "inputs", "8)", "--hparams=xla=off"), backend().compile_errors(True, BATCH):
        uncompilable(tf.zeros([2]))


@pytest.mark.parametrize(
    ("enabled", "error"),
    [(True, tf.errors.InternalError(None, None, "Collective ops is aborted by: another worker has ended")),
     (False, tf.errors.InternalError(None, None, "XLA")), (True, MachineError("x")), (True, ValueError("x")),
     (True, tf.errors.ResourceExhaustedError(None, None, "x"))],
)  # fmt: skip
def test_other_errors_stay_what_they_are(enabled, error):
    with pytest.raises(type(error)) as caught, backend().compile_errors(enabled, BATCH):
        raise error
    assert caught.value is error
