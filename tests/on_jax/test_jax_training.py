"""JAX trains as TensorFlow does: equal weights, exact resuming, runs that either backend can continue."""

import gc
import json
import shlex
import shutil
import weakref
from collections import Counter
from pathlib import Path

import jax
import keras
import numpy as np
import pytest

from t2t.backends import backend
from t2t.backends.jax.kernels import TOLERANCE, FusedKernels, JaxKernels, fused_kernels, largest_error
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import trainer
from t2t.files.paths import programs_folder
from t2t.hparams.transformer_moe import TransformerMoeHParams
from t2t.layers.mode import in_mode
from t2t.models.transformer_moe import TransformerMoe
from t2t.training.optimizers import build_optimizer
from t2t.training.step import UpdateStep
from tests.builders import batch, randomise, tiny_transformer, tokens_spec
from tests.errors import refused
from tests.on_jax.training_cases import CASES, OptimizerHParams, packed, trained, transformer
from tests.readme import ROOT, block
from tests.slopes import slope_step, slopes, weights
from tests.waiting import wait_until

PAGE = ROOT / "docs/jax.md"
GOLDEN_RUN = Path(__file__).parents[1] / "golden/runs/0.1.0"


@pytest.mark.parametrize("name", CASES)
def test_as_tensorflow(name, check_same):
    check_same(name, CASES[name]())


def check_close(found, expected):
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("step", [1, 2])
def test_layers_in_a_loop_cost_what_they_cost_one_by_one(step):
    """All layers have experts, and are a loop, or every second one has, and they are none."""
    sizes = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 3, "num_experts": 3}
    model = randomise(TransformerMoe(TransformerMoeHParams(**sizes, expert_layer_step=step), tokens_spec()))
    features = batch(1, (3, 4), (4, 2))

    def loss(values):
        mapping = list(zip(model.trainable_variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping, initialize_variables=False):
            return model.loss_sum(model.body(features), features["targets"])[0]

    def found(in_loop):
        values = [variable.value for variable in model.trainable_variables]
        with in_mode(layer_loops=in_loop):
            compute = jax.jit(jax.value_and_grad(lambda values: loss(values)))
            # Otherwise the two would be equal for want of a loop, which has an iteration for each of the three layers.
            assert ("length=3" in str(compute.trace(values).jaxpr)) == (in_loop and step == 1)
            return compute(values)

    (value, gradients), (expected, expected_gradients) = found(True), found(False)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    for one, other in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_eight_devices_give_what_one_gives():
    check_close(
        trained(transformer, replicas=8, rate=3e-3, updates=3),
        trained(transformer, micro_batches=8, rate=3e-3, updates=3),
    )


def test_a_replica_of_four_devices_gives_what_one_gives_and_each_has_a_quarter_of_its_weights():
    rules = {"replicas": 2, "micro_batches": 2, "clip_grad_norm": 1.0, "ema_decay": 0.9, "rate": 3e-3, "updates": 3}
    check_close(trained(transformer, shards=4, **rules), trained(transformer, **rules))
    devices = backend().devices(worker_cpu=8, weight_shards=4)
    for shape, part in (((8, 24), (8, 6)), ((24, 8), (6, 8)), ((8, 8), (8, 2)), ((8, 3), (2, 3)), ((3, 5), (3, 5))):
        value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        own = devices.own_copies(devices.copy_to_all(value))
        np.testing.assert_array_equal(own, value)
        assert [shard.data.shape for shard in own.addressable_shards] == [part] * 8
    assert devices.own_copies(devices.copy_to_all(np.zeros(8))).addressable_shards[0].data.shape == (8,), "no matrix"


def test_a_model_is_freed_after_its_training():
    built = []

    def build():
        model = transformer()
        built.append(weakref.ref(model))
        return model

    trained(build, updates=1)
    gc.collect()
    assert [model() for model in built] == [None]


def test_a_run_goes_on_with_its_weights_split(tmp_path, monkeypatch):
    """With the documented command; checkpoints are the same as with one device for each replica."""
    _, command, *flags = shlex.split(block("jax_shards", page=PAGE))
    assert flags[-2:] == ["--worker_cpu=4", "--weight_shards=2"]
    found = {}
    for name, devices in (("split", flags[-2:]), ("whole", ["--worker_cpu=2"])):
        for part in ("run", "data"):
            shutil.copytree(GOLDEN_RUN / part, tmp_path / name / part)
        monkeypatch.chdir(tmp_path / name)
        assert trainer.main([command, *flags[:-2], *devices, "--schedule=train"]) == 0
        found[name] = CheckpointStore("run/checkpoints").load()
    assert found["split"].step == found["whole"].step == 502
    check_close(found["split"].model, found["whole"].model)


def test_shards_divide_the_devices():
    with refused("--weight_shards=3:", 8):
        backend().devices(worker_cpu=8, weight_shards=3)


def test_programs_of_training_are_kept_unless_the_user_has_said_where():
    said = jax.config.jax_compilation_cache_dir
    try:
        for asked, found in ((None, str(programs_folder())), ("", ""), ("/elsewhere", "/elsewhere")):
            jax.config.update("jax_compilation_cache_dir", asked)
            backend.__wrapped__()
            assert jax.config.jax_compilation_cache_dir == found
    finally:
        jax.config.update("jax_compilation_cache_dir", said)


def test_a_warm_up_and_an_update_that_is_not_finite_change_nothing():
    engine = backend()
    model = randomise(transformer())
    step = UpdateStep(model, build_optimizer(OptimizerHParams(optimizer="adam")), engine.devices(), ema_decay=0.9)
    state = lambda: [np.asarray(v) for v in (*model.variables, *step.optimizer.variables, *step.ema)]  # noqa: E731
    before = state()
    step.warm_up([[batch()]])
    empty = {name: np.zeros_like(ids) for name, ids in batch().items()}
    stats = step([[empty]], 1, 0.1)  # no target tokens
    assert not bool(stats.finite)
    for one, other in zip(before, state(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert step.skipped(1) == 1


@pytest.mark.parametrize(
    ("micro_batches", "programs"),
    [(1, {"_local_sums": 2, "_apply": 1}), (3, {"_add_sums": 2, "_apply": 1})],
)
def test_updates_run_the_programs_that_were_compiled_side_by_side(micro_batches, programs):
    """For two shapes of batches."""
    engine, replicas = backend(), 2
    with (devices := engine.devices(worker_cpu=replicas)).scope():
        model, optimizer = randomise(transformer()), build_optimizer(OptimizerHParams(optimizer="adam"))
    step = UpdateStep(model, optimizer, devices)
    updates = [[[batch(0, (length,), (length,))] * replicas] * micro_batches for length in (3, 12)]
    compiled = []

    def listen(event, seconds, fun_name="", **_):
        name = fun_name[len("jit(") : -1]
        if event.endswith("backend_compile_duration") and name in ("_local_sums", "_add_sums", "_apply"):
            compiled.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        step.compile(updates)
        step(updates[0], 1, 0.1)  # after this, the programs of the second shape are compiled
        wait_until(lambda: not step.is_compiling, "all is compiled")
        assert Counter(compiled) == programs
        step(updates[1], 2, 0.1)
        assert Counter(compiled) == programs, "none more"
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_updates_run_while_programs_are_compiled_and_do_not_need_the_rest():
    """The first update is the last in the queue; the weights are those of a step that compiles nothing ahead."""
    updates = [[[batch(0, (length,), (length,))]] for length in (9, 8, 7, 6, 5, 4)]

    def trained_state(ahead):
        model, optimizer = randomise(transformer()), build_optimizer(OptimizerHParams(optimizer="adam"))
        step = UpdateStep(model, optimizer, backend().devices())
        if ahead:
            step.compile(updates)
        for number, update in enumerate(reversed(updates[3:]), 1):
            step(update, number, 0.1)
            if ahead and number == 1:
                assert step.compiles_meanwhile
                assert step.is_compiling
        step.stop_compiling()
        wait_until(lambda: not step.is_compiling, "all is compiled")
        step(updates[0], 4, 0.1)  # whether its program was compiled or not
        return [np.asarray(variable) for variable in step.state_variables]

    for found, expected in zip(trained_state(ahead=True), trained_state(ahead=False), strict=True):
        np.testing.assert_array_equal(found, expected)


class Counted(FusedKernels):
    """JAX's attention, not fused, on a processor, or products of 16-bit scores; counts what is used."""

    def __init__(self, fuses):
        super().__init__("xla")
        self.fuses, self.used = fuses, {"attention": 0, "scores": 0}

    def attention(self, *given):
        found = super().attention(*given) if self.fuses else None
        self.used["attention"] += found is not None
        return found

    def float32_product(self, *given):
        self.used["scores"] += 1
        return super().float32_product(*given)


class BlindKernels(FusedKernels):
    """Attends to padding, too."""

    def attention(self, q, k, v, keep, causal):
        return super().attention(q, k, v, None, causal)


def test_fused_attention_is_used_only_where_it_gives_the_results_of_products(caplog):
    assert largest_error(FusedKernels("xla")) < TOLERANCE / 2
    assert largest_error(BlindKernels("xla")) > 10 * TOLERANCE
    assert type(fused_kernels()) is JaxKernels, "a processor has no cuDNN"
    assert [record.msg.split(":")[0] for record in caplog.records] == ["fused attention"]


def one_batch(update, part):
    return batch(update, (3, 6, 5), (4, 2, 7))


@pytest.mark.parametrize("examples", [one_batch, packed], ids=["padded", "packed"])
@pytest.mark.parametrize("fuses", [False, True], ids=["products", "fused"])
def test_a_network_with_kernels_of_jax_computes_the_same(fuses, examples):
    """In bfloat16, with groups of heads that share keys; also the gradient, to the rounding of 16 bits."""
    sizes = {"hidden_size": 32, "filter_size": 32, "num_heads": 4, "num_kv_heads": 2}
    model, features = tiny_transformer(dtype="mixed_bfloat16", **sizes), examples(1, 0)

    def loss(values):
        mapping = list(zip(model.trainable_variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping, initialize_variables=False):
            return model.loss_sum(model.body(features), features["targets"])[0]

    values = [variable.value for variable in model.trainable_variables]
    expected = jax.value_and_grad(loss)(values)
    kernels = Counted(fuses)
    with in_mode(kernels=kernels):
        found = jax.value_and_grad(loss)(values)
    assert [name for name, times in kernels.used.items() if times] == ["attention" if fuses else "scores"]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-2)
    ours, right = (np.concatenate([np.ravel(one) for one in gradient]) for gradient in (found[1], expected[1]))
    assert np.linalg.norm(ours - right) < 0.03 * np.linalg.norm(right)


def test_noise_on_gradients_is_a_function_of_seed_and_update_and_falls():
    """A gradient of 20,000 zeros: standard deviation 2 at first, 2 * 2^(-0.55 / 2) at the second update."""

    def noises(seed):
        step = slope_step(start=(0.0,) * 20_000, gradient_noise=2.0, run_seed=seed)
        found = []
        for update in (1, 2):
            before = weights(step)
            step([[slopes([0.0] * 20_000)]], update, 1.0)
            found.append(before - weights(step))
        return found

    first, second = noises(1)
    np.testing.assert_allclose([first.std(), second.std()], [2.0, 2.0 * 2 ** (-0.55 / 2)], rtol=0.03)
    np.testing.assert_array_equal(noises(1), [first, second])
    for other in (second, noises(2)[0]):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.05


def test_a_run_that_tensorflow_began_goes_on_and_resumes_exactly(tmp_path, monkeypatch):
    """With the documented command: the same weights in one process and in two; metrics and events are written."""
    environment, command, *flags, steps = shlex.split(block("jax_train", page=PAGE))
    assert (environment, command, steps) == ("KERAS_BACKEND=jax", "t2t-trainer", "--train_steps=504")
    found = {}
    for name, updates in (("whole", [504]), ("parts", [502, 504])):
        for part in ("run", "data"):
            shutil.copytree(GOLDEN_RUN / part, tmp_path / name / part)
        monkeypatch.chdir(tmp_path / name)
        for last in updates:
            assert trainer.main([command, *flags, f"--train_steps={last}", "--local_eval_frequency=2"]) == 0
        folder = Path("run/checkpoints/step-00000504")
        found[name] = {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}
    assert found["whole"] == found["parts"] != {}
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().strip().split("\n")]
    assert lines[-1]["step"] == 504
    assert list(Path("run/events/train").iterdir())
