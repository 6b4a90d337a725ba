"""Runs that train only adapters: their start, frozen weights, content of checkpoints, and decoding."""

import shutil

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.runs.describing import describe
from t2t.runs.recording import encoders_of
from t2t.runs.warm_start import warm_start
from t2t.training.weights import assign_model, evaluated_weights
from tests.builders import batch, numpy

LORA = {"lora_rank": 2, "lora_alpha": 4.0}
PARTS = ("model", "optimizer", "ema")

pytestmark = pytest.mark.usefixtures("no_rehearsal")


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
    run = adapt(make_run, base, tmp_path_factory.mktemp("adapted") / "run", {"eval_steps": 2})
    run.fit()
    return run


def variables_of(run):
    return {v.path: np.asarray(v) for v in run.model.variables}


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert np.asarray(found[name]).tobytes() == np.asarray(array).tobytes(), name


def test_training_and_evaluating_leave_the_base_bit_for_bit(base, adapted):
    assert_same(variables_of(adapted), base.checkpoint().model)


def test_averaging_the_best_checkpoints_leaves_the_base_bit_for_bit(make_run, base, tmp_path):
    settings = {"eval_every": 2, "eval_steps": 1, "keep_best_checkpoints": 2}
    run = adapt(make_run, base, tmp_path / "run", settings)
    run.fit()
    whole, mean = base.checkpoint().model, CheckpointStore(run.folder / "checkpoints").load("averaged-best").model
    assert any(mean[path].tobytes() != array.tobytes() for path, array in whole.items())
    assert_same(variables_of(run), whole)


def test_a_checkpoint_holds_adapters_with_slots_and_averages_alone(base, adapted):
    found, whole = adapted.checkpoint(), base.checkpoint()
    targets = {path for path in whole.model if path.endswith(("/query_kernel", "/value_kernel"))}
    assert len(targets) == 6  # two of the encoder's attention, four of the decoder's
    factors = {f"{path}/{name}" for path in targets for name in ("lora_a", "lora_b")}
    assert found.model.keys() == found.ema.keys() == factors
    slots = {f"adam/{path.replace('/', '_')}_{kind}" for path in factors for kind in ("momentum", "velocity")}
    assert {name for name in found.optimizer if "lora" in name} == slots
    assert not any("kernel" in name or "table" in name for name in found.optimizer.keys() - slots)
    assert sum(array.size for array in found.model.values()) == 6 * 2 * (8 + 8)
    place = {"path": str(whole.folder.resolve()), "fingerprint": whole.fingerprint, "scale": 2.0}
    assert found.state["adapters"] == place
    assert RunDir.open(adapted.folder).record.warm_start["fingerprint"] == whole.fingerprint


def test_what_is_trained_is_reported(base, adapted):
    whole = base.checkpoint().model
    size = sum(array.size for array in whole.values())
    assert (
        f"adapters: rank 2 on 6 of {len(whole)} weights (lora_targets=query_kernel|value_kernel); 192 parameters are "
        f"trained, {192 / size:.2%} of {size:,}"
    ) in describe(adapted)


@pytest.mark.slow
def test_the_first_update_has_the_loss_of_the_base(make_run, base, tmp_path):
    losses = []
    for name, changes in (("adapted", {}), ("whole", {"lora_rank": 0})):
        run = adapt(make_run, base, tmp_path / name, **changes)
        warm_start(run.step, run.settings, encoders_of(run.data), run.folder)
        losses.append(float(run.step([[batch()]], 1, 0.0).loss_sum))
    assert losses[0] == losses[1]


def test_a_checkpoint_decodes_with_the_weights_that_were_evaluated(base, adapted):
    loaded = CheckpointStore(adapted.folder / "checkpoints").load_model()
    with evaluated_weights(adapted.step):
        assert_same(variables_of(adapted), loaded.weights)
    whole, changed = base.checkpoint().model, adapted.checkpoint().ema
    for path, array in loaded.weights.items():
        wanted = whole[path]
        if f"{path}/lora_a" in changed:
            wanted = wanted + 2.0 * changed[f"{path}/lora_a"] @ changed[f"{path}/lora_b"]
            assert not np.array_equal(array, whole[path])
        np.testing.assert_allclose(array, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_merged_weights_have_the_loss_of_the_adapters(make_run, base, tmp_path):
    run = adapt(make_run, base, tmp_path / "run", ema_decay=0.0)
    run.fit()
    of_adapters = run.step([[batch()]], 5, 0.0).loss_sum
    merged = make_run(tmp_path / "merged")
    assign_model(merged.model, CheckpointStore(run.folder / "checkpoints").load_model().weights)
    np.testing.assert_allclose(numpy(of_adapters), numpy(merged.step([[batch()]], 5, 0.0).loss_sum), rtol=1e-6)
    assign_model(merged.model, base.checkpoint().model)
    assert abs(float(of_adapters) - float(merged.step([[batch()]], 5, 0.0).loss_sum)) > 1e-3


def test_a_run_of_adapters_resumes_exactly(make_run, base, adapted, tmp_path):
    adapt(make_run, base, tmp_path / "run", train_steps=2).fit()
    resumed = adapt(make_run, base, tmp_path / "run", {"warm_start_from": ""})
    resumed.fit()
    for part in PARTS:
        assert_same(getattr(resumed.checkpoint(), part), getattr(adapted.checkpoint(), part))
    assert resumed.checkpoint().state["adapters"] == adapted.checkpoint().state["adapters"]
    assert_same(variables_of(resumed), base.checkpoint().model)


def test_a_run_of_adapters_can_be_adapted_and_trained_on(make_run, adapted, tmp_path):
    merged = CheckpointStore(adapted.folder / "checkpoints").load_model().weights
    for name, changes in (("again", {"lora_targets": "ffn"}), ("whole", {"lora_rank": 0})):
        run = adapt(make_run, adapted, tmp_path / name, train_steps=0, **changes)
        warm_start(run.step, run.settings, encoders_of(run.data), run.folder)
        assert_same(variables_of(run), merged)


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
    assert_same(variables_of(run), base.checkpoint().model)
    assert all(array.any() for array in run.checkpoint().model.values())


@pytest.mark.slow
def test_a_model_of_several_problems_can_be_adapted(make_run, tmp_path):
    problems = "backwards-forwards"
    base = make_run(tmp_path / "base", {}, problems, train_steps=2)
    base.fit()
    run = make_run(tmp_path / "run", {"warm_start_from": str(base.folder)}, problems, train_steps=4, **LORA)
    run.fit()
    assert_same(variables_of(run), base.checkpoint().model)
    assert all(array.any() for array in run.checkpoint().model.values())


# === Errors ===


def test_adapters_without_a_base_are_refused(make_run, tmp_path):
    with pytest.raises(UserError) as error:
        make_run(tmp_path / "run", **LORA).fit()
    assert str(error.value) == (
        "hparam lora_rank=2: adapters change the weights of a trained model; name its run or checkpoint by "
        "--warm_start_from"
    )
    assert not (tmp_path / "run/run.json").exists()


@pytest.mark.parametrize(
    ("settings", "changes", "named"),
    [
        ({"warm_start_optimizer": True}, {}, "--warm_start_optimizer"),
        ({"warm_start_other_vocabulary": True}, {}, "--warm_start_other_vocabulary"),
        (
            {},
            {"frozen_weights": "table", "objective": "minimum_risk"},
            "frozen_weights=table and objective=minimum_risk",
        ),
    ],
)
def test_what_cannot_go_with_adapters_is_named(make_run, base, tmp_path, settings, changes, named):
    with pytest.raises(UserError) as error:
        adapt(make_run, base, tmp_path / "run", settings, **changes).fit()
    assert str(error.value) == (
        f"hparam lora_rank=2: {named} cannot be used with adapters, which are trained by the likelihood on all weights "
        f"of another run as they are; leave out one or the other"
    )


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"num_heads": 4}, "num_heads=2 there, num_heads=4 here"),
        ({"num_hidden_layers": 2}, " missing from the checkpoint"),
    ],
)
def test_a_base_of_another_model_is_refused(make_run, base, tmp_path, changes, wrong):
    with pytest.raises(UserError) as error:
        adapt(make_run, base, tmp_path / "run", **changes).fit()
    said = "adapters (lora_rank=2) are added to all weights of a model, and checkpoint step-00000002 is of another: "
    assert said in str(error.value)
    assert wrong in str(error.value)
    assert not (tmp_path / "run/run.json").exists()


def test_a_base_that_is_not_what_it_was_is_refused(make_run, base, tmp_path):
    shutil.copytree(base.folder, tmp_path / "base")
    run = make_run(tmp_path / "run", {"warm_start_from": str(tmp_path / "base")}, train_steps=2, **LORA)
    run.fit()
    folder = tmp_path / "base/checkpoints/step-00000002"
    store = CheckpointStore(folder.parent)
    was = store.load().fingerprint
    shutil.rmtree(folder)
    check_refused(make_run, tmp_path / "run", folder, "is missing")
    store.save(2, model={path: array + 1 for path, array in base.checkpoint().model.items()})
    found = f"has changed (fingerprint {store.load().fingerprint[:12]}, was {was[:12]})"
    check_refused(make_run, tmp_path / "run", folder, found)


def check_refused(make_run, run, base, found):
    """Resuming and loading fail with a message about the base."""
    adapters = run / "checkpoints/step-00000002"
    resumed = make_run(run, train_steps=4, **LORA)
    for needs_base in (resumed.fit, CheckpointStore(adapters.parent).load_model):
        with pytest.raises(UserError) as error:
            needs_base()
        assert str(error.value) == (
            f"checkpoint {adapters} holds adapters for the weights of {base}, which {found}; restore that from a "
            f"copy, or adapt another checkpoint in a new --output_dir"
        )
