"""Warm starts: which weights a run takes, its record, resuming it; other vocabularies, frozen weights."""

import dataclasses
import functools
import hashlib
import json
import logging
import shutil
import sys

import numpy as np
import pytest

from t2t.checkpoints.checkpoint import read_checkpoint, write_checkpoint
from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.models.transformer_encoder import TransformerEncoder, TransformerMlm
from t2t.runs.data import encoders_of
from t2t.runs.describing import describe
from t2t.runs.evaluation import decode_and_score
from t2t.runs.starting import warm_start
from t2t.training.trained_weights import freeze_weights
from t2t.training.weights import model_arrays, optimizer_arrays
from tests.builders import edited, tiny_transformer
from tests.equivalence.identity import assert_same
from tests.errors import refused


@pytest.fixture(scope="module")
def make_run(make_run):
    """Builds runs of the minimal model, since the source of weights does not depend on the model."""
    return functools.partial(make_run, model=make_run.tiny, runs=make_run.run)


@pytest.fixture(scope="module")
def trained(make_run, tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("trained") / "run", train_steps=2)
    run.fit()
    return run


@pytest.fixture
def warm(begun_warm, trained, tmp_path):
    """Returns a copy of a run that has begun with the trained weights, and its settings."""
    shutil.copytree(begun_warm.folder, tmp_path / "run")
    return tmp_path / "run", {"warm_start_from": str(trained.folder)}


@pytest.fixture(scope="module")
def begun_warm(make_run, trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm") / "run"
    run = make_run(folder, {"warm_start_from": str(trained.folder)}, train_steps=1)
    run.fit()
    return run


def test_a_warm_start_takes_the_weights_of_a_checkpoint_and_nothing_else(make_run, trained, tmp_path):
    source = trained.folder / "checkpoints/step-00000002"
    run = make_run(tmp_path / "warm", {"warm_start_from": str(source)}, train_steps=1, learning_rate=0.0)
    run.fit()
    assert_same(run.checkpoint().model, trained.checkpoint().model)
    assert run.checkpoint().step == 1
    record = json.loads((run.folder / "run.json").read_text())
    checksums = (trained.folder / "checkpoints/step-00000002/checksums.json").read_bytes()
    (report,) = record["warm_start"].pop("report")
    assert report.startswith(f"warm start from {trained.folder}/checkpoints/step-00000002 (update 2): ")
    assert report.endswith(" variables taken")
    assert record["warm_start"] == {
        "from": str(source.resolve()), "step": 2, "fingerprint": hashlib.sha256(checksums).hexdigest(), "anew": [],
        "optimizer_updates": 0,
    }  # fmt: skip


def test_a_resumed_run_keeps_its_beginning(make_run, trained, warm, tmp_path, caplog):
    folder, source = warm
    with caplog.at_level(logging.INFO, "t2t"):
        again = make_run(folder, source, train_steps=2)
        again.fit()
    flag = f"--warm_start_from={trained.folder}:"
    assert [message for message in caplog.messages if flag in message and str(folder) in message]
    assert "warm start from" not in caplog.text
    whole = make_run(tmp_path / "whole", source, train_steps=2)
    whole.fit()
    assert_same(again.checkpoint().model, whole.checkpoint().model)
    make_run(folder, train_steps=3).fit()
    assert json.loads((folder / "run.json").read_text())["warm_start"]["step"] == 2
    with refused(f"--warm_start_from={whole.folder}:", trained.folder, 2):
        make_run(folder, {"warm_start_from": str(whole.folder)}, train_steps=3).fit()
    shutil.copytree(trained.folder / "checkpoints/step-00000002", tmp_path / "moved")
    make_run(folder, {"warm_start_from": str(tmp_path / "moved")}, train_steps=3).fit()


def test_a_run_that_ended_before_its_first_checkpoint_begins_again_with_its_weights(make_run, trained, warm):
    class Ended(make_run.keywords["runs"]):
        def _warm_up(self, *args):
            sys.exit(1)

    folder, source = warm
    assert json.loads((folder / "run.json").read_text())["random_seed"] == 3
    shutil.rmtree(folder / "checkpoints")
    before = (folder / "run.json").read_bytes()
    with refused(f"--warm_start_from={trained.folder}"):
        make_run(folder, train_steps=1).fit()
    with pytest.raises(SystemExit):
        make_run(folder, source, train_steps=1, runs=Ended).fit()
    assert (folder / "run.json").read_bytes() == before
    again = make_run(folder, source, train_steps=1, learning_rate=0.0)
    again.fit()
    assert_same(again.checkpoint().model, trained.checkpoint().model)


def test_a_record_without_a_fingerprint_knows_its_beginning_by_path_alone(make_run, trained, warm, tmp_path):
    folder, source = warm
    with edited(folder / "run.json") as record:
        del record["warm_start"]["fingerprint"], record["warm_start"]["anew"]
    make_run(folder, source, train_steps=1).fit()
    shutil.copytree(trained.folder, tmp_path / "moved")
    for other in (tmp_path / "moved", tmp_path / "nowhere"):
        with refused(f"--warm_start_from={other}:", trained.folder):
            make_run(folder, {"warm_start_from": str(other)}, train_steps=1).fit()


def test_a_run_whose_checkpoints_name_no_vocabularies_goes_on(make_run, trained, tmp_path, caplog):
    shutil.copytree(trained.folder, tmp_path / "run")
    shutil.copytree(trained.folder, tmp_path / "old")
    folder = tmp_path / "old/checkpoints/step-00000002"
    read = read_checkpoint(folder)
    shutil.rmtree(folder)
    write_checkpoint(folder, dataclasses.replace(read, state={"seed": read.state["seed"], "data": read.state["data"]}))
    runs = [make_run(tmp_path / name, train_steps=3) for name in ("run", "old")]
    for run in runs:
        run.fit()
    whole, old = (run.checkpoint() for run in runs)
    assert old.state == whole.state
    assert "vocabularies" in old.state
    assert_same(old.model, whole.model)
    assert "train_steps" not in caplog.text, "the rate does not fall to an end"


def test_a_run_that_has_begun_takes_no_other_weights(make_run, trained, begun_warm, tmp_path):
    shutil.copytree(trained.folder, tmp_path / "run")
    with refused(f"--warm_start_from={begun_warm.folder}"):
        make_run(tmp_path / "run", {"warm_start_from": str(begun_warm.folder)}, train_steps=3).fit()


def of_another_vocabulary(run, folder):
    """Writes a run with a different target vocabulary, separate from that of inputs; returns its folder."""
    shutil.copytree(run.folder / "checkpoints", folder / "checkpoints")
    shutil.copy(run.folder / "run.json", folder / "run.json")
    with edited(folder / "run.json") as record:
        record["vocabularies"]["targets"]["fingerprint"] = "0" * 64
    return folder


@pytest.fixture(scope="module")
def separate(make_run, tmp_path_factory):
    """A run with separate tables for inputs and targets."""
    run = make_run(tmp_path_factory.mktemp("separate") / "run", train_steps=1, shared_embedding=False, ema_decay=0.5)
    run.fit()
    return run


def test_weights_of_another_vocabulary_are_refused(make_run, trained, tmp_path):
    other = of_another_vocabulary(trained, tmp_path / "other")
    named = (f"--warm_start_from={other}:", tmp_path / "run:", "targets", 13, "000000000000")
    with refused(*named, "--warm_start_other_vocabulary"):
        make_run(tmp_path / "run", {"warm_start_from": str(other)}, train_steps=1).fit()
    assert not (tmp_path / "run/run.json").exists()


@pytest.mark.parametrize("known", [True, False])
def test_where_asked_all_but_the_other_vocabularys_weights_are_taken(make_run, separate, tmp_path, caplog, known):
    other = of_another_vocabulary(separate, tmp_path / "other")
    if not known:
        other = without_vocabularies(other / "checkpoints/step-00000001", tmp_path / "alone")
    flags = {"warm_start_from": str(other), "warm_start_other_vocabulary": True}
    changes = {"train_steps": 1, "learning_rate": 0.0, "shared_embedding": False, "ema_decay": 0.5}
    with caplog.at_level(logging.INFO, "t2t"):
        run = make_run(tmp_path / "run", flags, **changes)
        run.fit()
    chance = model_arrays(make_run(tmp_path / "chance", **changes).step)
    initialized = {"averaging/target_embedding/table"} | (set() if known else {"averaging/source_embedding/table"})
    theirs, found = separate.checkpoint().weights, run.checkpoint()
    for path, array in found.model.items():
        np.testing.assert_array_equal(array, (chance if path in initialized else theirs)[path])
        np.testing.assert_allclose(found.ema[path], array, rtol=1e-6)
    features = "targets" if known else "inputs, targets"
    assert f"reinitialized for another vocabulary of {features}: {', '.join(sorted(initialized))}" in caplog.messages
    taken = len(theirs) - len(initialized)
    assert f"{taken} of {taken} variables taken" in caplog.text
    assert json.loads((run.folder / "run.json").read_text())["warm_start"]["anew"] == features.split(", ")


def without_vocabularies(checkpoint, folder):
    """Writes a copy of the checkpoint without its state, which has the fingerprints of vocabularies."""
    read = read_checkpoint(checkpoint)
    write_checkpoint(folder, dataclasses.replace(read, state={}))
    return folder


def test_a_later_end_of_a_falling_rate_is_warned_about(make_run, tmp_path, caplog):
    falling = {"learning_rate_schedule": "linear", "learning_rate": 0.01}
    make_run(tmp_path / "run", train_steps=1, **falling).fit()
    make_run(tmp_path / "run", train_steps=2, **falling).fit()
    assert sum("train_steps" in message for message in caplog.messages) == 1


# === Other vocabularies, the state of the optimizer, frozen weights ===

LOSS = "teacher_forced/loss"
TABLE = "averaging/target_embedding/table"
FROZEN = "embedding|/mix/bias"


def begun(make_run, trained, folder, problem, **flags):
    """Returns a run of a problem that was warm-started from the trained run, and its messages about that."""
    run = make_run(folder, {"warm_start_from": str(trained.folder), **flags}, problem)
    before = model_arrays(run.step)
    return run, before, warm_start(run.step, run.config, encoders_of(run.data), folder)


def test_another_vocabulary_takes_the_rows_of_the_pieces_that_both_have(make_run, trained, tmp_path):
    flags = {"warm_start_other_vocabulary": True, "warm_start_optimizer": True}
    run, before, said = begun(make_run, trained, tmp_path / "run", "otherwise", **flags)
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
    make_run, tmp_path, problem, mixture
):
    """Their weights have the same paths, their vocabularies other names: `inputs` and `backwards.inputs`."""
    start = make_run(tmp_path / "start", None, mixture or "otherwise", train_steps=1, shared_modalities=bool(mixture))
    start.fit()
    run = make_run(tmp_path / "run", {"warm_start_from": str(start.folder)}, problem, shared_modalities=not mixture)
    before, encoders = model_arrays(run.step)[TABLE], encoders_of(run.data)
    with refused("--warm_start_from"):
        warm_start(run.step, run.config, encoders, run.folder)
    settings = dataclasses.replace(run.config, warm_start_other_vocabulary=True)
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
    with refused("--warm_start_optimizer", "step-00000002", "adam", "sgd"):
        make_run(tmp_path / "run", flags, optimizer="sgd").fit()
    assert not (tmp_path / "run/run.json").exists()


def test_frozen_weights_stay_bit_for_bit_and_have_no_slots(make_run, tmp_path):
    start = model_arrays(make_run(tmp_path / "start").step)
    run = make_run(tmp_path / "run", train_steps=2, frozen_weights=FROZEN, ema_decay=0.5)
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
        make_run(tmp_path / "run", train_steps=5, ema_decay=0.5).fit()


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
        make_run(tmp_path / "run", {}, "backwards_masked", model=model, **changes)


def test_hidden_words_are_not_decoded_to_be_scored(make_run, tmp_path):
    run = make_run(tmp_path / "run", {}, "backwards_masked", model=TransformerMlm)
    with refused("dev", "backwards_masked:", "t2t-eval"):
        decode_and_score(Translator(run.data[0].problem, run.model, run.hparams), run.data[0], "dev")


def test_a_classifier_begins_with_every_weight_of_a_masked_language_model(make_run, tmp_path):
    masked = make_run(tmp_path / "masked", {}, "backwards_masked", model=TransformerMlm, train_steps=2)
    masked.fit()
    theirs = masked.checkpoint().model
    run = make_run(tmp_path / "run", {"warm_start_from": str(masked.folder)}, "first_digits", model=TransformerEncoder)
    before = model_arrays(run.step)
    said = warm_start(run.step, run.config, encoders_of(run.data), tmp_path / "run")
    ours = model_arrays(run.step)
    assert said.reinitialized_features == ()
    assert len(theirs) == len(ours) - 2
    for path, array in ours.items():
        np.testing.assert_array_equal(array, theirs[path] if path in theirs else before[path])
    assert {path.split("/")[1] for path in ours.keys() - theirs.keys()} == {"class_label"}
