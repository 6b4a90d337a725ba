"""Evaluating examples of any length, and the best checkpoints that a run keeps."""

import contextlib
import json
import logging
import os
import re
import shutil
import signal

import numpy as np
import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.data.generation.generate import generate
from t2t.errors import MachineError
from t2t.hparams.transformer import transformer_tiny
from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.registry import PROBLEMS
from t2t.runs.config import RunConfig
from t2t.runs.data import open_data
from t2t.runs.evaluation import build_evaluator, decode_and_score, first_examples
from t2t.runs.run_evaluator import RunEvaluator
from t2t.specs import INPUTS, TARGETS
from t2t.training.weights import assign_model
from tests.equivalence.identity import arrays_of, assert_same
from tests.stores import failing_uploads, memory_store

# === Examples longer than all training examples are not cut if the network supports their positions ===

SHORTER = {"max_length": 6, "train_steps": 1, "beam_size": 1}


def test_longer_examples_than_those_of_training_count_whole(make_run, tmp_path, caplog):
    run = make_run(tmp_path / "run", **SHORTER)
    hparams, (data,) = run.hparams, run.data
    reader, problem = data.readers["dev"], data.problem
    values, lengths = reader.read(range(len(reader)), "targets")
    assert max(lengths) > 6
    figures = build_evaluator(run.model, data, "dev", hparams, 0, ()).teacher_forced()
    targets = [problem.decode_target(values[end - n : end]) for end, n in zip(lengths.cumsum(), lengths, strict=True)]
    pairs = [(" ".join(reversed(target.split())), target) for target in targets]
    scores = Translator(problem, run.model, hparams).score(pairs)
    assert figures["teacher_forced/loss"] == pytest.approx(-sum(scores) / lengths.sum(), rel=1e-5)
    assert "are cut" not in caplog.text


def test_the_limit_asked_for_cuts_and_says_so(make_run, tmp_path, caplog):
    run = make_run(tmp_path / "run", **SHORTER, max_input_length=6)
    build_evaluator(run.model, run.data[0], "dev", run.hparams, 0, ())
    assert "examples are longer than the 6 ids that max_input_length allows and are cut" in caplog.text


def test_the_target_language_reaches_the_scores_of_decodes(make_run, tmp_path):
    run = make_run(tmp_path / "run", **SHORTER)
    hparams, (data,) = run.hparams, run.data
    data.problem.metrics, data.problem.target_language = ("bleu",), "zh"
    (evaluated,) = build_evaluator(run.model, data, "dev", hparams, 1, ("bleu",)).scores().values()
    _, (decoded,) = decode_and_score(Translator(data.problem, run.model, hparams), data, "dev")
    assert "|tok:zh|" in evaluated.signature
    assert "|tok:zh|" in decoded.signature


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_every_example_of_an_algorithmic_dev_split_counts(positions, tmp_path, caplog):
    """Training sequences have at most 41 ids, dev sequences 401; a table of learned positions has `max_length` rows."""

    class Few(PROBLEMS.get("algorithmic_reverse_decimal40")):
        name, train_size, dev_size = "few_reversed", 20, 30

    problem = Few()
    generate(problem, tmp_path, tmp_path / "tmp", seed=1, workers=1)
    data = open_data(RunConfig(problem=problem.name, data_dir=str(tmp_path)), problem)
    sizes = {"num_hidden_layers": 1, "hidden_size": 8, "filter_size": 8}
    hparams = transformer_tiny().replace(positions=positions, max_length=128, **sizes).freeze()
    model = Transformer(hparams, data.problem.spec())
    lengths = data.readers["dev"].lengths(TARGETS)
    assert max(lengths) > 256

    assert len(first_examples(data, "dev", hparams, 0)) == len(data.readers["dev"]) == 30
    batches = build_evaluator(model, data, "dev", hparams, 0, ())._batches
    longer = int(np.sum(lengths > 128))
    if positions == "sinusoidal":
        assert "are cut" not in caplog.text
        tokens = lengths.sum()
    else:
        assert f"dev: {longer} examples are longer than the 128 ids that the model has positions for" in caplog.text
        tokens = np.minimum(lengths, 128).sum()
    assert sum(int((batch[TARGETS] > 0).sum()) for _, batch in batches) == tokens
    assert all(batch[INPUTS].shape[1] <= (401 if positions == "sinusoidal" else 128) for _, batch in batches)


# === The best checkpoints that a run keeps, and their mean at its end ===

SETTINGS = {"local_eval_frequency": 1, "eval_steps": 1, "keep_checkpoint_max": 1, "keep_best_checkpoints": 3}
LOSS = "teacher_forced/loss"


def make(make_run, folder, problems="forwards", runs=None, **settings):
    # The rate is so large that losses go up and down.
    changes = {"runs": runs or make_run.run, "train_steps": 6, "learning_rate": 3.0}
    return make_run(folder, SETTINGS | settings, problems, make_run.tiny, **changes)


def losses(run, name=LOSS):
    lines = map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line[f"dev/{name}"] for line in lines if f"dev/{name}" in line}


def store_of(run):
    return CheckpointStore(run.folder / "checkpoints")


def mean_of(run, steps):
    read = [store_of(run).load(step).model for step in steps]
    return {path: np.mean([one[path].astype(float) for one in read], axis=0).astype("float32") for path in read[0]}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("t2t.files.remote.agent.SETTLE_S", 0.01)
    with memory_store(monkeypatch, tmp_path / "cache") as opened:
        yield opened


@pytest.fixture(scope="module")
def whole(make_run, tmp_path_factory):
    """An uninterrupted run of six updates, with a copy of its folder after three, and the messages of its end."""
    folder, messages = tmp_path_factory.mktemp("best"), []
    run = make(make_run, folder / "run")
    run.copy_after(3, folder / "copy")
    listener = logging.Handler("INFO")
    listener.emit = lambda record: messages.append(record.getMessage())
    log = logging.getLogger("t2t")
    level = log.level
    log.setLevel("INFO")
    log.addHandler(listener)
    try:
        assert run.fit() == 0
    finally:
        log.removeHandler(listener)
        log.setLevel(level)
    run.copy, run.messages = folder / "copy", messages
    return run


def test_the_best_are_kept_and_averaged(whole):
    found, store = losses(whole), store_of(whole)
    best = sorted(found, key=found.get)[:3]
    assert list(found) == [1, 2, 3, 4, 5, 6]
    assert [one.step for one in store.ranking()] == best
    assert store.steps() == sorted({*best, 6})
    loaded = store.load("averaged-best")
    assert loaded.state["averaged_steps"] == best
    for path, array in mean_of(whole, best).items():
        np.testing.assert_array_equal(loaded.model[path], array)


def test_the_mean_is_compared_with_the_best_on_the_dev_split(make_run, whole, tmp_path):
    said = re.search(r"averaged-best: .* (\S+) (\S+) on dev, .*step (\d)\) (\S+): .*=(\S+)", whole.messages[-1])
    assert said, whole.messages
    best = store_of(whole).ranking()
    run = make(make_run, tmp_path / "run")
    assign_model(run.model, mean_of(whole, [one.step for one in best]))
    own = RunEvaluator(run.parts, 1, "")()[LOSS]
    name, value, step, its_value, which = said.groups()
    assert (name, int(step)) == (LOSS, best[0].step)
    assert float(value) == pytest.approx(own, abs=2e-4)
    assert float(its_value) == pytest.approx(best[0].value, abs=1e-4)
    assert which == ("averaged-best" if own < best[0].value else "best")


def test_a_resumed_run_keeps_the_same_and_the_mean_changes_no_bit_of_training(make_run, whole, tmp_path):
    shutil.copytree(whole.copy, tmp_path / "copy")
    resumed = make(make_run, tmp_path / "copy")
    assert resumed.checkpoint().step == 3
    assert resumed.fit() == 0
    assert store_of(resumed).ranking() == store_of(whole).ranking()
    plain = make(make_run, tmp_path / "plain", keep_best_checkpoints=1)
    assert plain.fit() == 0
    assert not (plain.folder / "checkpoints" / "ranking.json").exists()
    for which in ("latest", "averaged-best"):
        assert_same(store_of(whole).load(which).model, store_of(resumed).load(which).model)
    assert_same(plain.checkpoint().model, arrays_of(whole.model))


def test_a_finished_run_makes_a_mean_that_is_missing_and_keeps_one_that_is_there(make_run, whole, tmp_path):
    shutil.copytree(whole.folder, tmp_path / "run")
    file = tmp_path / "run" / "checkpoints" / "averaged-best" / "model.safetensors"
    content, before = file.read_bytes(), file.stat().st_ino
    assert make(make_run, tmp_path / "run").fit() == 0
    assert file.stat().st_ino == before
    shutil.rmtree(file.parent)
    assert make(make_run, tmp_path / "run").fit() == 0
    assert file.read_bytes() == content


def test_a_signal_breaks_the_mean_off_and_the_same_command_makes_up_for_it(make_run, whole, tmp_path):
    class Interrupted(make_run.run):
        @contextlib.contextmanager
        def _interruptible(self, signals):
            with super()._interruptible(signals):
                signal.raise_signal(signal.SIGTERM)
                yield

    shutil.copytree(whole.folder, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints" / "averaged-best"
    shutil.rmtree(folder)
    assert make(make_run, tmp_path / "run", runs=Interrupted).fit() == signal.SIGTERM
    assert not folder.exists()
    assert make(make_run, tmp_path / "run").fit() == 0
    assert folder.exists()


def test_of_several_problems_the_mean_of_their_losses_ranks(make_run, tmp_path):
    run = make(make_run, tmp_path / "run", "forwards-one_word")
    assert run.fit() == 0
    found = losses(run, f"mean/{LOSS}")
    assert [one.step for one in store_of(run).ranking()] == sorted(found, key=found.get)[:3]
    assert store_of(run).load("averaged-best").state["averaged_steps"] == sorted(found, key=found.get)[:3]


@pytest.mark.parametrize("name", ["latest.json", "best.json", "ranking.json"])
def test_a_pointer_whose_upload_failed_is_uploaded_by_the_resumed_run(make_run, store, monkeypatch, name):
    def run():
        return make_run("memory://b/run", SETTINGS, "forwards", make_run.tiny, train_steps=1)

    with failing_uploads(monkeypatch, name), pytest.raises(MachineError):
        run().fit()
    assert f"b/run/checkpoints/{name}" not in store.names()
    assert run().fit() == 0
    assert f"b/run/checkpoints/{name}" in store.names()
    monkeypatch.setenv("T2T_CACHE", f"{os.environ['T2T_CACHE']} elsewhere")
    found = CheckpointStore("memory://b/run/checkpoints")
    assert found.latest() == 1
    assert [found.best()] == found.ranking() != []
