"""What a run, a model, a problem or its data do not allow; parts of runs of several problems, and of a warm start."""

from pathlib import Path
from types import SimpleNamespace
from types import SimpleNamespace as Fake

import numpy as np
import pytest

import t2t
from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.compatibility import RowTransfer
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.inference.engine import EngineChoice
from t2t.inference.fallback import FallbackEngine
from t2t.runs import starting
from t2t.runs.config import RunConfig
from t2t.runs.decisions import long_warmup
from t2t.runs.distilling import check_distillation
from t2t.runs.evaluation import compare_engines, decode_and_score
from t2t.runs.exporting import _trial_inputs, export_run
from t2t.runs.loading import load_ensemble
from t2t.runs.names import set_batch_size
from t2t.runs.run_checks import check_own_checkpoints
from t2t.runs.trained_problems import _report_examples, build_parts, micro_batches_of, resolve_best_metric
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.words import TokenEncoder
from tests.builders import tiny_hparams
from tests.errors import refused
from tests.letters import Letters, letters, letters_alone
from tests.many_runs import SPEC, write_run

TOKENS = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=9)
LABELS = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=3)


@pytest.mark.parametrize(("problem", "features", "about"), [
    ("classify_files", {"inputs": TOKENS, "targets": LABELS}, ["targets", "label"]),
    ("languagemodel_files", {"targets": TOKENS}, ["inputs"]),
    ("tiny_algo_rev", {"inputs": TOKENS, "targets": TOKENS}, ["tiny_algo"]),
])  # fmt: skip
def test_what_cannot_be_distilled_is_said(problem, features, about, tmp_path):
    spec = ProblemSpec(name=problem, features=features)
    record = RunRecord(problem=problem, model="transformer", hparams_set="transformer_tiny", hparams={}, spec=spec)
    with refused(f"{problem}:", *about):
        check_distillation(RunDir(tmp_path, record), problem, str(tmp_path), str(tmp_path / "new"))


@pytest.mark.parametrize(("schedule", "warmup", "last", "changes"), [
    ("noam", 4000, 1500, "learning_rate_schedule=linear,learning_rate=0.0056,learning_rate_warmup_steps=150"),
    ("rsqrt_decay", 10_000, 19_999, "learning_rate_schedule=linear,learning_rate=0.01,learning_rate_warmup_steps=1999"),
    ("inverse_sqrt", 2000, 1500, "learning_rate_warmup_steps=150"),
    ("constant", 3, 5, "learning_rate_warmup_steps=1"),
    *[(schedule, 400, 800, "") for schedule in ("linear", "cosine", "noam")],
    ("linear", 1, 1, ""),
])  # fmt: skip
def test_a_warm_up_of_more_than_half_of_the_updates_is_warned_of(schedule, warmup, last, changes):
    """Of noam with 8 channels the highest rate is (8 * 4000)^-0.5; what is advised needs no warning."""
    hparams = tiny_hparams(
        learning_rate_schedule=schedule, learning_rate=1.0, learning_rate_warmup_steps=warmup, train_steps=last
    )
    said = long_warmup(hparams)
    assert said.rpartition("--hparams=")[2] == changes
    assert not said or {f"learning_rate_warmup_steps={warmup}:", f"{last:,}", f"{2 * warmup:,}"} <= set(said.split())
    assert not long_warmup(hparams.override(changes))
    assert not long_warmup(hparams.replace(train_steps=2 * warmup))


def test_each_problem_has_a_batch_size_or_all_have_one():
    assert set_batch_size(tiny_hparams(problem_batch_sizes=(8, 9)), ["a", "b"], "b").batch_size == 9
    with refused("problem_batch_sizes=(8,", 2, 3):
        set_batch_size(tiny_hparams(problem_batch_sizes=(8, 9)), ["a", "b", "c"], "b")


@pytest.fixture
def pair(tmp_path):
    """Two runs with checkpoints of the same steps."""
    runs = [write_run(tmp_path / name, 5) for name in ("a", "b")]
    for run in runs:
        for step in (10, 20):
            CheckpointStore(run.checkpoints_folder).save(step, model={"w": np.zeros(2)}, state={})
        CheckpointStore(run.checkpoints_folder).mark_best(10, "bleu", 1.0)
    return runs


def test_several_runs_have_checkpoints_of_one_name(pair, monkeypatch):
    for name in ("latest", "best", "best:2", "10", "step-00000020"):
        check_own_checkpoints(pair, name)
    CheckpointStore(pair[0].checkpoints_folder).save_named("averaged", 20, model={"w": np.zeros(2)})
    monkeypatch.chdir(pair[0].checkpoints_folder)
    with refused("--checkpoint=averaged", pair[1].path):  # a folder here of that name is none of each run
        check_own_checkpoints(pair, "averaged")


@pytest.mark.parametrize("name", ["a", "a/checkpoints", "a/checkpoints/step-00000010"])
def test_an_ensemble_takes_no_path_of_a_checkpoint(pair, tmp_path, name):
    found = tmp_path / "a/checkpoints" / ("step-00000010" if name.endswith("10") else "step-00000020")
    with refused(f"checkpoint={tmp_path / name}", found, pair[1].path):
        t2t.load([run.path for run in pair], tmp_path / name)


# === Uses that are refused before anything is loaded ===
PICTURES = Fake(spec=Fake(inputs=Fake(kind=FeatureKind.IMAGE)))
"""Facts of a model that reads pictures."""


def run_of(name, problem="counting", mask_predicts=False, autoregressive=True):
    model = Fake(mask_predicts=mask_predicts, autoregressive=autoregressive)
    return Fake(run=Fake(path=Path(name)), problem=Fake(name=problem, encoders={}), model=model)


@pytest.mark.parametrize(("other", "about"), [
    ({"mask_predicts": True}, ["--output_dir:", "other"]),
    ({"problem": "counting_again"}, ["--output_dir:", "first", "counting", "other", "counting_again"]),
    ({"autoregressive": False}, ["--output_dir:", "first", "other"]),
])  # fmt: skip
def test_runs_that_are_no_ensemble(other, about):
    runs = {"first": run_of("first"), "other": run_of("other", **other)}
    with refused(*about):
        load_ensemble(list(runs), runs.get, "probabilities", EngineChoice())


@pytest.mark.parametrize(("model", "flags", "about"), [
    (PICTURES, {"parity_file": "lines", "data_dir": ""}, ["--parity_file:", SPEC.name, "--data_dir"]),
    (None, {"parity_file": "", "data_dir": "gone"}, [SPEC.name, "gone", "--parity_file"]),
])  # fmt: skip
def test_inputs_to_compare_an_export_on(model, flags, about, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = Fake(problem=Fake(name=SPEC.name), run=write_run(tmp_path / "run", 1))
    with refused(*about):
        _trial_inputs(loaded, Fake(model=model), limit=9, **flags)


def test_what_is_not_compared_decoded_or_exported(tmp_path):
    fast = Fake(name="fast", refusal=lambda request: f"beam_size={request}")
    translator = Fake(engine=FallbackEngine(fast, None), request=len)
    with refused("--compare_engine:", "beam_size=3"):
        compare_engines(translator, Fake(inputs=lambda: [[2], [3], [4]]))
    problem = letters_alone()
    data, translator = Fake(problem=problem, manifest=Fake(split=str)), Fake(facts=Fake(spec=problem.spec()))
    translator.has_inputs = False
    with refused("dev", "letters_alone:", "t2t-eval"):
        decode_and_score(translator, data, "dev")
    loaded = Fake(hparams=Fake(shortlist=False), problem=Fake(options=Fake(language_tags="de")))
    with refused("--language_tags=de:", "--format=onnx", "--format=saved_model"):
        export_run(loaded, tmp_path, "onnx", "none", 1, "", 9, "")


# === Parts ===
def report(skipped=0, shortened=0, of=1000, longest=1234, is_new=True, normalized=()):
    train = SimpleNamespace(normalized=dict(normalized), examples=of)
    data = SimpleNamespace(
        readers={"train": range(of)}, problem=SimpleNamespace(name="news"),
        manifest=SimpleNamespace(split={"train": train}.get),
    )  # fmt: skip
    _report_examples(SimpleNamespace(skipped=skipped, shortened=shortened, longest=longest), data, 256, is_new)


@pytest.mark.parametrize(("sizes", "replicas", "count"), [
    ((0,), 1, 2), ((0,), 2, 1), ((1024,), 1, 8), ((1024, 1024), 2, 4), ((1024, 32), 1, 8), ((0, 32), 1, 2),
])  # fmt: skip
def test_the_size_of_an_update_is_reached_by_batches_of_the_problems_sizes(sizes, replicas, count):
    hparams = tiny_hparams(batch_size=4096, effective_batch_size=8192, problem_batch_sizes=sizes)
    assert micro_batches_of(hparams, replicas) == count


@pytest.mark.parametrize(("counts", "about"), [
    ({"skipped": 499}, ["49.9%", "499", "1,234"]),
    ({"skipped": 999, "is_new": False}, ["99.9%", "999"]),  # a resumed run may skip what it always has
    ({"shortened": 1000}, ["100.0%"]),  # cut examples are a warning however many
])  # fmt: skip
def test_longer_examples_are_a_warning_with_their_share_and_from_half_an_error(caplog, counts, about):
    report()
    assert caplog.messages == []
    for skipped, share in ((500, "50.0%"), (999, "99.9%")):
        with refused("max_length=256", share, "news", skipped, "1,000", "1,234"):
            report(skipped=skipped)
    report(**counts)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert all(word in record.getMessage() for word in ("max_length=256", "news", "1,000", *about))


def test_texts_that_the_vocabulary_changes_are_a_warning_with_their_number(caplog):
    report(normalized={"targets": 321})
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert all(word in record.getMessage() for word in ("targets", "321", "1,000"))


@pytest.mark.parametrize("settings", [{"schedule": "train"}, {"eval_steps": 0}])
def test_a_run_that_does_not_evaluate_does_not_stop_early(settings):
    hparams = tiny_hparams(early_stopping_steps=5, best_metric="loss")
    with refused("early_stopping_steps=5:", "--schedule=continuous_train_and_eval", "--eval_steps"):
        resolve_best_metric(hparams, letters(), None, RunConfig(**settings))


def test_problems_with_shared_modalities_have_the_same_vocabularies():
    class Others(Letters):
        name = "others"

    encoders = letters().encoders | {"targets": TokenEncoder("xyz")}
    data = [SimpleNamespace(problem=problem) for problem in (letters(), Others().with_encoders(encoders))]
    with refused("shared_modalities=True:", "letters", "others", "targets", "--shared_vocab_file"):
        build_parts(None, data, tiny_hparams(shared_modalities=True), RunConfig(), 1, True)


# === Warm start ===
def test_a_slot_that_has_no_row_for_each_piece_begins_empty():
    """Adafactor has a slot of column statistics of a table, which has no row for each piece."""
    own = {"table": {"rows": np.zeros(3), "columns": np.zeros(8)}}
    iterations = SimpleNamespace(path="iterations")
    step = SimpleNamespace(optimizer=SimpleNamespace(iterations=iterations, name="adafactor"))
    theirs = {"iterations": np.array(5), "rows": np.array([7.0, 9.0]), "columns": np.ones(8)}
    checkpoint = Checkpoint(step=5, model={}, optimizer=theirs)
    rows = {"table": RowTransfer(np.array([[1, 2]]), there=2, here=3)}
    found, updates = starting._slots_of(step, own, checkpoint, SimpleNamespace(taken=()), rows, "asked")
    assert updates == 5
    assert found.keys() == {"rows"}
    np.testing.assert_array_equal(found["rows"][1], [0.0, 0.0, 9.0])
