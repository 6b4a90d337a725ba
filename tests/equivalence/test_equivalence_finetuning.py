"""Warm starts from runs with another vocabulary and with optimizer state, and updates with frozen weights."""

import dataclasses
import json

import numpy as np
import pytest

from t2t.errors import UserError
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

TABLE = "transformer/target_embedding/table"
FROZEN = "/encoder/|embedding"

pytestmark = pytest.mark.usefixtures("no_rehearsal")


@pytest.fixture(scope="module")
def trained(make_run, tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("trained") / "run", train_steps=2)
    run.fit()
    return run


def begun(make_run, trained, folder, problem, **flags):
    """Returns a run of a problem that was warm-started from the trained run, and its messages about that."""
    run = make_run(folder, {"warm_start_from": str(trained.folder), **flags}, problem)
    before = model_arrays(run.step)
    return run, before, warm_start(run.step, run.settings, encoders_of(run.data), folder)


def test_another_vocabulary_takes_the_rows_of_the_pieces_that_both_have(make_run, trained, tmp_path):
    flags = {"warm_start_other_vocabulary": True, "warm_start_optimizer": True}
    run, before, said = begun(make_run, trained, tmp_path / "run", "otherwise", **flags)
    theirs, ours = trained.checkpoint(), model_arrays(run.step)
    there, here = (encoders_of(one.data)["targets"] for one in (trained, run))
    ids = {there.piece(i): i for i in range(there.vocab_size)}
    pieces = [here.piece(i) for i in range(here.vocab_size)]
    slot = "adam/transformer_target_embedding_table_velocity"
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
    make_run, tmp_path, problem, mixture
):
    """Their weights have the same paths, their vocabularies other names: `inputs` and `backwards.inputs`."""
    start = make_run(tmp_path / "start", None, mixture or "otherwise", train_steps=1, shared_modalities=bool(mixture))
    start.fit()
    run = make_run(tmp_path / "run", {"warm_start_from": str(start.folder)}, problem, shared_modalities=not mixture)
    before, encoders = model_arrays(run.step)[TABLE], encoders_of(run.data)
    with pytest.raises(UserError, match="the same ids would mean other words"):
        warm_start(run.step, run.settings, encoders, run.folder)
    settings = dataclasses.replace(run.settings, warm_start_other_vocabulary=True)
    warm_start(run.step, settings, encoders, run.folder)
    there = next(iter(encoders_of(start.data).values()))
    ids = {there.piece(i): i for i in range(there.vocab_size)}
    for row, found in enumerate(model_arrays(run.step)[TABLE]):
        known = ids.get(next(iter(encoders.values())).piece(row))
        np.testing.assert_array_equal(found, before[row] if known is None else start.checkpoint().model[TABLE][known])


def test_the_optimizer_goes_on_where_it_was_only_where_asked(make_run, trained, tmp_path):
    theirs = trained.checkpoint().optimizer
    run, *_, said = begun(make_run, trained, tmp_path / "on", "backwards", warm_start_optimizer=True)
    assert optimizer_arrays(run.step).keys() == theirs.keys()
    for name, array in optimizer_arrays(run.step).items():
        np.testing.assert_array_equal(array, theirs[name])
    assert said.lines()[-1] == "the optimizer continues after its 2 updates"
    assert run.step.skipped(0) == 0
    run, *_ = begun(make_run, trained, tmp_path / "anew", "backwards")
    assert not any(array.any() for array in optimizer_arrays(run.step).values() if array.ndim)
    assert int(run.step.optimizer.iterations.numpy()) == 0


def test_another_optimizers_state_is_refused(make_run, trained, tmp_path):
    flags = {"warm_start_from": str(trained.folder), "warm_start_optimizer": True}
    with pytest.raises(UserError) as error:
        make_run(tmp_path / "run", flags, optimizer="sgd").fit()
    assert str(error.value).endswith(
        "--warm_start_optimizer: checkpoint step-00000002 has the state of adam optimizer, the run's is sgd; leave it "
        "out to begin with empty slots"
    )
    assert not (tmp_path / "run/run.json").exists()


def test_frozen_weights_stay_bit_for_bit_and_have_no_slots(make_run, tmp_path):
    start = model_arrays(make_run(tmp_path / "start").step)
    run = make_run(tmp_path / "run", train_steps=2, frozen_weights=FROZEN, ema_decay=0.5)
    run.fit()
    found = run.checkpoint()
    frozen = {path for path in start if "/encoder/" in path or "embedding" in path}
    assert 0 < len(frozen) < len(start)
    for path, array in found.model.items():
        assert np.array_equal(array, start[path]) == (path in frozen), path
        np.testing.assert_array_equal(found.weights[path], array if path in frozen else found.ema[path])
    assert not any("encoder_" in name or "embedding" in name for name in found.optimizer)
    assert found.ema.keys() == start.keys() - frozen
    count = sum(start[path].size for path in frozen)
    said = f"frozen: {len(frozen)} of {len(start)} weights, {count:,} parameters (frozen_weights={FROZEN})"
    assert said in describe(run)
    with pytest.raises(UserError, match="belongs to another run: hparam frozen_weights: asked none, found /encoder/"):
        make_run(tmp_path / "run", train_steps=5, ema_decay=0.5).fit()


@pytest.mark.slow
def test_a_run_with_frozen_weights_resumes_exactly(make_run, tmp_path):
    changes = {"frozen_weights": FROZEN, "ema_decay": 0.5}
    make_run(tmp_path / "run", train_steps=2, **changes).fit()
    resumed, whole = (make_run(tmp_path / name, train_steps=4, **changes) for name in ("run", "whole"))
    for run in (resumed, whole):
        run.fit()
    for part in ("model", "optimizer", "ema"):
        found, wanted = (getattr(run.checkpoint(), part) for run in (resumed, whole))
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("nowhere", "hparam frozen_weights=nowhere: it matches none of the "),
        ("transformer", "hparam frozen_weights=transformer: it matches all of the "),
        (
            "(",
            "hparam frozen_weights=(: it is no regular expression (missing ), unterminated subpattern at position 0)",
        ),
    ],
)
def test_patterns_that_freeze_nothing_or_everything_are_refused(pattern, said):
    with pytest.raises(UserError) as error:
        freeze_weights(tiny_transformer(), pattern)
    assert str(error.value).startswith(said)


def test_hidden_words_are_no_task_for_a_model_that_writes_word_by_word(make_run, no_rehearsal, tmp_path):
    message = (
        "backwards_masked: hidden words are predicted from inputs alone, and Transformer reads targets, too; train "
    )
    with pytest.raises(UserError, match=message):
        make_run(tmp_path / "run", {}, "backwards_masked", Transformer)


def test_hidden_words_are_not_decoded_to_choose_a_checkpoint(make_run, tmp_path):
    with pytest.raises(UserError) as error:
        make_run(tmp_path / "run", {}, "backwards_masked", TransformerMlm, best_metric="bleu")
    assert str(error.value) == (
        "hparam best_metric=bleu: backwards_masked predicts hidden words and no whole outputs; choose a "
        "teacher-forced figure, e.g. teacher_forced/loss"
    )


def test_hidden_words_are_not_decoded_to_be_scored(make_run, tmp_path):
    run = make_run(tmp_path / "run", {}, "backwards_masked", TransformerMlm)
    with pytest.raises(UserError) as error:
        decode_and_score(Translator(run.data[0].problem, run.model, run.resolved.hparams), run.data[0], "dev")
    assert str(error.value) == (
        "decoding the dev split of backwards_masked: words are hidden in training and evaluation alone; evaluate it "
        "with t2t-eval"
    )


def test_a_classifier_begins_with_every_weight_of_a_masked_language_model(make_run, no_rehearsal, tmp_path):
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
