"""Which runs can be distilled, sizes of batches, and what a checkpoint of several runs may be called."""

import numpy as np
import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.runs.run_checks import check_distillation, check_own_checkpoints, set_batch_size
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import tiny_hparams
from tests.errors import refused
from tests.many_runs import write_run

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


def test_several_runs_have_checkpoints_of_one_name(pair):
    for name in ("latest", "best", "best:2", "10", "step-00000020"):
        check_own_checkpoints(pair, name)


def test_a_folder_with_the_name_of_a_checkpoint_is_none_of_each_run(pair, monkeypatch):
    CheckpointStore(pair[0].checkpoints_folder).save_named("averaged", 20, model={"w": np.zeros(2)})
    monkeypatch.chdir(pair[0].checkpoints_folder)
    with refused("--checkpoint=averaged", pair[1].path):
        check_own_checkpoints(pair, "averaged")


@pytest.mark.parametrize("name", ["a", "a/checkpoints", "a/checkpoints/step-00000010"])
def test_an_ensemble_takes_no_path_of_a_checkpoint(pair, tmp_path, name):
    found = tmp_path / "a/checkpoints" / ("step-00000010" if name.endswith("10") else "step-00000020")
    with refused(f"checkpoint={tmp_path / name}", found, pair[1].path):
        t2t.load([run.path for run in pair], tmp_path / name)
