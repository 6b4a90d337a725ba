"""Warm starts from runs with another vocabulary and with optimizer state, and updates with frozen weights."""

import dataclasses
import functools
import json

import numpy as np
import pytest

from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.models.transformer_mlm import TransformerMlm
from t2t.runs.describing import describe
from t2t.runs.recording import encoders_of
from t2t.runs.split_decoding import decode_and_score
from t2t.runs.warm_start import warm_start
from t2t.training.freezing import freeze_weights
from t2t.training.weights import model_arrays, optimizer_arrays
from tests.builders import tiny_transformer
from tests.errors import refused

LOSS = "teacher_forced/loss"
TABLE = "averaging/target_embedding/table"
FROZEN = "embedding|/mix/bias"


@pytest.fixture(scope="module")
def make_tiny(make_run):
    """Builds runs of the minimal model, since what is taken and frozen does not depend on the model."""
    return functools.partial(make_run, model=make_run.tiny)


@pytest.fixture(scope="module")
def trained(make_tiny, tmp_path_factory):
    run = make_tiny(tmp_path_factory.mktemp("trained") / "run", train_steps=2)
    run.fit()
    return run


def begun(make_tiny, trained, folder, problem, **flags):
    """Returns a run of a problem that was warm-started from the trained run, and its messages about that."""
    run = make_tiny(folder, {"warm_start_from": str(trained.folder), **flags}, problem)
    before = model_arrays(run.step)
    return run, before, warm_start(run.step, run.settings, encoders_of(run.data), folder)


def test_another_vocabulary_takes_the_rows_of_the_pieces_that_both_have(make_tiny, trained, tmp_path):
    flags = {"warm_start_other_vocabulary": True, "warm_start_optimizer": True}
    run, before, said = begun(make_tiny, trained, tmp_path / "run", "otherwise", **flags)
    theirs, ours = trained.checkpoint(), model_arrays(run.step)
    there, here = (encoders_of(one.data)["targets"] for one in (trained, run))
    ids = {there.piece(i): i for i in range(there.vocab_size)}
    pieces = [here.piece(i) for i in range(here.vocab_size)]
    slot = "adam/averaging_target_embedding_table_velocity"
    velocity = optimizer_arrays(run.step)[slot]
    assert {"9", "7", "a", "b"} <= set(pieces)
    for row, piece in enumerate(pieces):
        known = piece in ids
        np.testing.assert_array_equal(
            ours[TABLE][row], theirs.model[TABLE][ids[piece]] if known else before[TABLE][row]
        )
        np.testing.assert_array_equal(velocity[row], theirs.optimizer[slot][ids[piece]] if known else 0.0)
    for path in ours.keys() - {TABLE}:
        np.testing.assert_array_equal(ours[path], theirs.model[path])
    shared = len(set(pieces) & set(ids))
    assert shared == len(pieces) - 3
    assert (
        f"rows of shared pieces taken over to another vocabulary: {TABLE} ({shared} of {len(pieces)})" in said.lines()
    )
    assert said.reinitialized_features == ("inputs", "targets")
    assert json.loads(json.dumps(said.record("x")))["report"] == said.lines()


@pytest.mark.parametrize(("problem", "mixture"), [("otherwise", "backwards-forwards"), ("backwards-forwards", "")])
def test_a_mixture_with_shared_modalities_and_a_single_problem_take_each_others_rows(
    make_tiny, tmp_path, problem, mixture
):
    """Their weights have the same paths, their vocabularies other names: `inputs` and `backwards.inputs`."""
    start = make_tiny(tmp_path / "start", None, mixture or "otherwise", train_steps=1, shared_modalities=bool(mixture))
    start.fit()
    run = make_tiny(tmp_path / "run", {"warm_start_from": str(start.folder)}, problem, shared_modalities=not mixture)
    before, encoders = model_arrays(run.step)[TABLE], encoders_of(run.data)
    with refused("--warm_start_from"):
        warm_start(run.step, run.settings, encoders, run.folder)
    settings = dataclasses.replace(run.settings, warm_start_other_vocabulary=True)
    warm_start(run.step, settings, encoders, run.folder)
    there = next(iter(encoders_of(start.data).values()))
    ids = {there.piece(i): i for i in range(there.vocab_size)}
    for row, found in enumerate(model_arrays(run.step)[TABLE]):
        known = ids.get(next(iter(encoders.values())).piece(row))
        np.testing.assert_array_equal(found, before[row] if known is None else start.checkpoint().model[TABLE][known])


def test_the_optimizer_goes_on_where_it_was_only_where_asked(make_tiny, trained, tmp_path):
    theirs = trained.checkpoint().optimizer
    run, *_, said = begun(make_tiny, trained, tmp_path / "on", "backwards", warm_start_optimizer=True)
    assert optimizer_arrays(run.step).keys() == theirs.keys()
    for name, array in optimizer_arrays(run.step).items():
        np.testing.assert_array_equal(array, theirs[name])
    assert said.lines()[-1] == "the optimizer continues after its 2 updates"
    assert run.step.skipped(0) == 0
    run, *_ = begun(make_tiny, trained, tmp_path / "anew", "backwards")
    assert not any(array.any() for array in optimizer_arrays(run.step).values() if array.ndim)
    assert int(run.step.optimizer.iterations.numpy()) == 0


def test_another_optimizers_state_is_refused(make_tiny, trained, tmp_path):
    flags = {"warm_start_from": str(trained.folder), "warm_start_optimizer": True}
    with refused("--warm_start_optimizer", "step-00000002", "adam", "sgd"):
        make_tiny(tmp_path / "run", flags, optimizer="sgd").fit()
    assert not (tmp_path / "run/run.json").exists()


def test_frozen_weights_stay_bit_for_bit_and_have_no_slots(make_tiny, tmp_path):
    start = model_arrays(make_tiny(tmp_path / "start").step)
    run = make_tiny(tmp_path / "run", train_steps=2, frozen_weights=FROZEN, ema_decay=0.5)
    run.fit()
    found = run.checkpoint()
    frozen = {path for path in start if "embedding" in path or "/mix/bias" in path}
    assert 0 < len(frozen) < len(start)
    for path, array in found.model.items():
        assert np.array_equal(array, start[path]) == (path in frozen), path
        np.testing.assert_array_equal(found.weights[path], array if path in frozen else found.ema[path])
    assert not any("bias" in name or "embedding" in name for name in found.optimizer)
    assert found.ema.keys() == start.keys() - frozen
    count = sum(start[path].size for path in frozen)
    said = f"frozen: {len(frozen)} of {len(start)} weights, {count:,} parameters (frozen_weights={FROZEN})"
    assert said in describe(run)
    with refused("frozen_weights", FROZEN):
        make_tiny(tmp_path / "run", train_steps=5, ema_decay=0.5).fit()


@pytest.mark.parametrize("pattern", ["nowhere", "transformer", "("])
def test_patterns_that_freeze_nothing_or_everything_are_refused(pattern):
    with refused(f"frozen_weights={pattern}"):
        freeze_weights(tiny_transformer(), pattern)


@pytest.mark.parametrize(
    ("model", "changes", "named"),
    [(Transformer, {}, ["Transformer"]), (TransformerMlm, {"best_metric": "bleu"}, ["best_metric=bleu", LOSS])],
)
def test_hidden_words_are_no_task_for_a_model_that_writes_words_nor_decoded_to_choose(
    make_run, tmp_path, model, changes, named
):
    with refused("backwards_masked", *named):
        make_run(tmp_path / "run", {}, "backwards_masked", model, **changes)


def test_hidden_words_are_not_decoded_to_be_scored(make_run, tmp_path):
    run = make_run(tmp_path / "run", {}, "backwards_masked", TransformerMlm)
    with refused("dev", "backwards_masked:", "t2t-eval"):
        decode_and_score(Translator(run.data[0].problem, run.model, run.resolved.hparams), run.data[0], "dev")


def test_a_classifier_begins_with_every_weight_of_a_masked_language_model(make_run, tmp_path):
    masked = make_run(tmp_path / "masked", {}, "backwards_masked", TransformerMlm, train_steps=2)
    masked.fit()
    theirs = masked.checkpoint().model
    run = make_run(tmp_path / "run", {"warm_start_from": str(masked.folder)}, "first_digits", TransformerEncoder)
    before = model_arrays(run.step)
    said = warm_start(run.step, run.settings, encoders_of(run.data), tmp_path / "run")
    ours = model_arrays(run.step)
    assert said.reinitialized_features == ()
    assert len(theirs) == len(ours) - 2
    for path, array in ours.items():
        np.testing.assert_array_equal(array, theirs[path] if path in theirs else before[path])
    assert {path.split("/")[1] for path in ours.keys() - theirs.keys()} == {"class_label"}
