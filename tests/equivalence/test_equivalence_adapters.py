"""Runs that train only adapters: their start, frozen weights, content of checkpoints, and decoding."""

import functools
import shutil

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.runs.data import encoders_of
from t2t.runs.describing import describe
from t2t.runs.starting import warm_start
from t2t.training.weights import evaluated_weights
from tests.builders import batch
from tests.equivalence.identity import arrays_of, assert_identical, assert_same, differing
from tests.errors import refused

LORA = {"lora_rank": 2, "lora_alpha": 4.0, "lora_targets": "/mix/kernel"}


@pytest.fixture(scope="module")
def make_run(make_run):
    """Builds runs of the minimal model; adapters of every kind of layer are tested in `tests/conformance`."""
    return functools.partial(make_run, model=make_run.tiny, problems="forwards")


@pytest.fixture(scope="module")
def base(make_run, tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("base") / "run", train_steps=2)
    run.fit()
    return run


def adapt(make_run, base, folder, settings=None, **changes):
    """A run that trains adapters of the base for four updates, with a checkpoint after every second."""
    settings = {"warm_start_from": str(base.folder), **(settings or {})}
    return make_run(folder, settings, **{"train_steps": 4, "ema_decay": 0.5, **LORA, **changes})


@pytest.fixture(scope="module")
def adapted(make_run, base, tmp_path_factory):
    """An evaluated run, which averages its two best checkpoints, with a copy of its folder after two updates."""
    folder = tmp_path_factory.mktemp("adapted")
    settings = {"eval_steps": 1, "keep_best_checkpoints": 2}
    run = adapt(make_run, base, folder / "run", settings, best_metric="teacher_forced/loss")
    run.copy, run.before = folder / "copy", {"settings": settings, "best_metric": "teacher_forced/loss"}
    run.copy_after(2, run.copy)
    run.fit()
    return run


def test_training_evaluating_and_averaging_the_best_leave_the_base_bit_for_bit(base, adapted):
    whole, mean = base.checkpoint().model, CheckpointStore(adapted.folder / "checkpoints").load("averaged-best").model
    assert differing(whole, mean)
    assert_same(arrays_of(adapted.model), whole)


def test_a_checkpoint_holds_adapters_with_slots_and_averages_alone(base, adapted):
    found, whole = adapted.checkpoint(), base.checkpoint()
    factors = {f"averaging/mix/kernel/{name}" for name in ("lora_a", "lora_b")}
    assert found.model.keys() == found.ema.keys() == factors
    slots = {f"adam/{path.replace('/', '_')}_{kind}" for path in factors for kind in ("momentum", "velocity")}
    assert {name for name in found.optimizer if "lora" in name} == slots
    assert not any("kernel" in name or "table" in name for name in found.optimizer.keys() - slots)
    assert sum(array.size for array in found.model.values()) == 2 * (8 + 8)
    place = {"path": str(whole.folder.resolve()), "fingerprint": whole.fingerprint, "scale": 2.0}
    assert found.state["adapters"] == place
    assert RunDir.open(adapted.folder).record.warm_start["fingerprint"] == whole.fingerprint


def test_what_is_trained_is_reported(base, adapted):
    whole = base.checkpoint().model
    (line,) = [line for line in describe(adapted) if line.startswith("adapters: ")]
    size = sum(array.size for array in whole.values())
    named = ("rank 2", f"1 of {len(whole)} ", "lora_targets=/mix/kernel", "32 ", f"{32 / size:.2%}")
    assert all(name in line for name in named)


@pytest.mark.slow
def test_the_first_update_has_the_loss_of_the_base(make_run, base, tmp_path):
    losses = []
    for name, changes in (("adapted", {}), ("whole", {"lora_rank": 0})):
        run = adapt(make_run, base, tmp_path / name, **changes)
        warm_start(run.step, run.config, encoders_of(run.data), run.folder)
        losses.append(float(run.step([[batch()]], 1, 0.0).loss_sum))
    assert losses[0] == losses[1]


def test_a_checkpoint_decodes_with_the_weights_that_were_evaluated(base, adapted):
    loaded = CheckpointStore(adapted.folder / "checkpoints").load_model()
    with evaluated_weights(adapted.step):
        assert_same(arrays_of(adapted.model), loaded.weights)
    whole, changed = base.checkpoint().model, adapted.checkpoint().ema
    for path, array in loaded.weights.items():
        wanted = whole[path]
        if f"{path}/lora_a" in changed:
            wanted = wanted + 2.0 * changed[f"{path}/lora_a"] @ changed[f"{path}/lora_b"]
            assert not np.array_equal(array, whole[path])
        np.testing.assert_allclose(array, wanted, rtol=1e-6, atol=1e-7)


def test_a_run_of_adapters_resumes_exactly(make_run, base, adapted):
    settings = {"warm_start_from": "", **adapted.before["settings"]}
    resumed = adapt(make_run, base, adapted.copy, settings, best_metric=adapted.before["best_metric"])
    assert resumed.checkpoint().step == 2
    resumed.fit()
    assert_identical(resumed.checkpoint(), adapted.checkpoint())
    assert "adapters" in resumed.checkpoint().state
    assert_same(arrays_of(resumed.model), base.checkpoint().model)


def test_a_run_of_adapters_can_be_adapted_and_trained_on(make_run, adapted, tmp_path):
    merged = CheckpointStore(adapted.folder / "checkpoints").load_model().weights
    for name, changes in (("again", {"lora_targets": "table"}), ("whole", {"lora_rank": 0})):
        run = adapt(make_run, adapted, tmp_path / name, train_steps=0, **changes)
        warm_start(run.step, run.config, encoders_of(run.data), run.folder)
        assert_same(arrays_of(run.model), merged)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"effective_batch_size": 120},
        {"xla": "on", "fixed_shapes": 2},
        {"precision": "mixed_bfloat16"},
        {"precision": "mixed_float16"},
        {"optimizer": "adafactor"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_way_to_train_leaves_the_base_bit_for_bit(make_run, base, tmp_path, changes):
    run = adapt(make_run, base, tmp_path / "run", **changes)
    run.fit()
    assert_same(arrays_of(run.model), base.checkpoint().model)
    assert all(array.any() for array in run.checkpoint().model.values())


@pytest.mark.slow
def test_a_model_of_several_problems_can_be_adapted(make_run, tmp_path):
    problems = "backwards-forwards"
    base = make_run(tmp_path / "base", problems=problems, train_steps=2)
    base.fit()
    run = make_run(tmp_path / "run", {"warm_start_from": str(base.folder)}, problems=problems, train_steps=4, **LORA)
    run.fit()
    assert_same(arrays_of(run.model), base.checkpoint().model)
    assert all(array.any() for array in run.checkpoint().model.values())


# === Errors ===
@pytest.mark.parametrize(
    ("settings", "changes", "named"),
    [
        ({"warm_start_optimizer": True}, {}, ["lora_rank=2", "--warm_start_optimizer"]),
        ({"warm_start_other_vocabulary": True}, {}, ["lora_rank=2", "--warm_start_other_vocabulary"]),
        (
            {},
            {"frozen_weights": "table", "objective": "minimum_risk"},
            ["lora_rank=2", "frozen_weights=table", "objective=minimum_risk"],
        ),
        ({}, {"num_heads": 4}, ["lora_rank=2", "step-00000002", "num_heads=2", "num_heads=4"]),
        ({}, {"shared_embedding": False}, ["lora_rank=2", "step-00000002"]),
    ],
)
def test_what_cannot_go_with_adapters_and_bases_of_other_models_are_named(
    make_run, base, tmp_path, settings, changes, named
):
    with refused(*named):
        adapt(make_run, base, tmp_path / "run", settings, **changes).fit()
    assert not (tmp_path / "run/run.json").exists()


def test_a_base_that_is_not_what_it_was_is_refused(make_run, base, adapted, tmp_path):
    """Resuming and loading fail with a message about the base, which comes back afterwards."""
    run = shutil.copytree(adapted.folder, tmp_path / "run")
    checkpoint = base.checkpoint()
    store, adapters = CheckpointStore(base.folder / "checkpoints"), CheckpointStore(run / "checkpoints")
    resumed = make_run(run, train_steps=6, ema_decay=0.5, **LORA)
    folder = shutil.move(base.folder / "checkpoints/step-00000002", tmp_path / "base")
    try:
        for fingerprints in ([], [checkpoint.fingerprint[:12]]):
            if fingerprints:
                store.save(2, model={path: array + 1 for path, array in checkpoint.model.items()})
                fingerprints.append(store.load().fingerprint[:12])
            for needs_base in (resumed.fit, adapters.load_model):
                with refused("step-00000004", checkpoint.folder, *fingerprints):
                    needs_base()
    finally:
        shutil.rmtree(checkpoint.folder)
        shutil.move(folder, checkpoint.folder)
