"""Updates of a model of several problems: an update on one problem is the same as without the others."""

import dataclasses
import functools

import numpy as np
import pytest

from t2t.hparams.groups import OptimizerHParams
from t2t.models.transformer import Transformer
from t2t.specs.features import ProblemSpec
from t2t.training.engine_choice import training_engine
from t2t.training.optimizers import build_optimizer
from t2t.training.weights import model_arrays, optimizer_arrays
from tests.builders import batch, randomise, tiny_hparams, tokens_spec
from tests.equivalence.identity import differing

ONE, OTHER = (dataclasses.replace(tokens_spec(), name=name) for name in ("one", "other"))
BOTH = ProblemSpec(name="one-other", members=(ONE, OTHER))
WAYS = {
    "plain": {},
    "two replicas": {"replicas": 2},
    "accumulation": {"micro_batches": 2},
    "two replicas, accumulation, decay, average, clipping": {
        "replicas": 2, "micro_batches": 2, "weight_decay": 0.1, "ema_decay": 0.9, "clip_grad_norm": 0.5,
    },
}  # fmt: skip
EVERY_WAY = [
    pytest.param(way, id=name, marks=() if name == "plain" else pytest.mark.exhaustive) for name, way in WAYS.items()
]


def step_of(spec, replicas=1, **options):
    devices = training_engine().devices(worker_cpu=replicas)
    with devices.scope():
        model = randomise(Transformer(tiny_hparams(num_hidden_layers=1), spec))
        optimizer = build_optimizer(OptimizerHParams(optimizer="adamw"))
        optimizer.build(model.trainable_variables)
    return training_engine().update_step(model, optimizer, devices, **options)


@functools.cache
def step_of_both():
    """A step that tests may continue, since they compare weights before and after."""
    return step_of(BOTH)


def batches(update, replicas=1, micro_batches=1, **_):
    seeds = np.arange(replicas * micro_batches).reshape(micro_batches, replicas) + 10 * update
    return [[batch(seed=int(seed)) for seed in row] for row in seeds]


def state(step):
    return {**model_arrays(step), **optimizer_arrays(step)}


@pytest.mark.parametrize("way", EVERY_WAY)
def test_updates_of_one_problem_are_those_of_a_model_of_it_alone(way):
    """Up to rounding, however the update is split."""
    options = {name: value for name, value in way.items() if name != "micro_batches"}
    alone, both = step_of(ONE, **options), step_of(BOTH, **options)
    own = {variable.path: np.asarray(variable) for variable in alone.model.variables}
    for variable in both.model.variables:
        if (path := variable.path.replace("/one/", "/")) in own:
            variable.assign(own[path])
    for mean, variable in zip(both.ema, both.model.trainable_variables, strict=False):
        mean.assign(variable.value)
    for update in (1, 2, 3):
        alone(batches(update, **way), update, 0.01)
        both(batches(update, **way), update, 0.01, "one")
    expected, found = model_arrays(alone), model_arrays(both)
    shared = {path.replace("/one/", "/"): value for path, value in found.items() if "/other/" not in path}
    assert shared.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_allclose(shared[path], value, rtol=1e-6, atol=1e-7, err_msg=path)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_an_update_of_one_problem_leaves_what_is_the_others_as_it_is(way):
    options = {name: value for name, value in way.items() if name != "micro_batches"}
    step = step_of(BOTH, **options) if options else step_of_both()
    step(batches(1, **way), 1, 0.01, "one")
    step(batches(2, **way), 2, 0.01, "other")
    before, averages = state(step), [mean.numpy() for mean in step.ema]
    step(batches(3, **way), 3, 0.01, "one")
    changed = differing(before, state(step))
    assert not any("other/" in name or "other_" in name for name in changed)
    assert {name for name in model_arrays(step) if "/other/" not in name} <= changed
    for variable, old, mean in zip(step.model.trainable_variables, averages, step.ema, strict=False):
        assert (old.tobytes() == mean.numpy().tobytes()) == ("/other/" in variable.path)


def test_rehearsing_every_problem_changes_nothing():
    step = step_of_both()
    before = state(step)
    for problem in ("one", "other"):
        step.warm_up(batches(1), problem)
    assert differing(before, state(step)) == set()
