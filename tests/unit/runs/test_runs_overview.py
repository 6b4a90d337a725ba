"""The overview of runs: which exist, their progress, and which are in training."""

import json
import subprocess
import sys

import pytest

from t2t.checkpoints.run_dir import RunDir, lock_run
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.hparams.transformer import transformer_tiny
from t2t.runs.overview import LINK_LEVELS, find_runs, overview, overview_of
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.errors import refused

SPEC = ProblemSpec(name="digits", features={"targets": FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=5)})


def make_run(path, lines=(), **hparams):
    """Makes a run; `lines` are (update, seconds, figures)."""
    values = transformer_tiny().replace(train_steps=100, **hparams)
    record = RunRecord(
        problem="digits", model="transformer", hparams_set="transformer_tiny", overrides="num_heads=2",
        hparams=values.to_dict(), spec=SPEC,
    )  # fmt: skip
    run = RunDir.create(path, record, {})
    found = (json.dumps({"step": update, "time": time, **figures}) + "\n" for update, time, figures in lines)
    run.metrics_file.write_text("".join(found))
    return run


TRAINED = [
    (10, 1000.0, {"train/tokens_per_second": 50.0}),
    (20, 1020.0, {"train/tokens_per_second": 60.0}),
    (20, 1025.0, {"dev/bleu": 3.0}),
]


def test_a_run_that_has_stopped(tmp_path):
    run = make_run(tmp_path / "a", TRAINED)
    store = CheckpointStore(run.checkpoints_folder)
    store.save(20, model={}, optimizer={}, ema={}, state={})
    store.mark_best(20, "bleu", 3.0)
    found = overview_of(run.path, "a")
    assert (found.state, found.step, found.of, found.seconds_left) == ("stopped", 20, 100, None)
    assert (found.problem, found.model, found.hparams_set, found.changes) == (
        "digits", "transformer", "transformer_tiny", "num_heads=2",
    )  # fmt: skip
    assert (found.metric, found.best, found.at_step) == ("bleu", 3.0, 20)
    assert (found.tokens_per_second, found.updated) == (60.0, 1025.0)


WENT_BACK = [(15, 2000.0, {"train/tokens_per_second": 70.0}), (25, 2010.0, {"train/tokens_per_second": 80.0})]


@pytest.mark.parametrize(("lines", "seconds_left"), [(TRAINED, 160.0), ([*TRAINED, *WENT_BACK], 75.0)])
def test_a_run_that_trains_now_has_its_time_left(tmp_path, lines, seconds_left):
    """Eighty updates are left, and ten took twenty seconds; or 75 at the pace since the run went back."""
    run = make_run(tmp_path / "a", lines)
    with lock_run(run.path):
        found = overview_of(run.path, "a")
    assert (found.state, found.seconds_left) == ("training", seconds_left)
    assert overview_of(run.path, "a").state == "stopped"


def test_a_run_that_another_process_trains_is_seen(tmp_path):
    run = make_run(tmp_path / "a", TRAINED)
    code = f"from t2t.checkpoints.run_dir import lock_run\nwith lock_run({str(run.path)!r}):\n    print(); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert overview_of(run.path, "a").state == "training"
        process.kill()
    assert overview_of(run.path, "a").state == "stopped"


@pytest.mark.parametrize("odd", ["NaN", "-Infinity", "1e300", "-5", "true", "null", '"soon"', "[1]", "1" + 400 * "0"])
def test_a_number_that_cannot_be_right_is_ignored(tmp_path, odd):
    """A line's other numbers are used, and the rest of the line has its meaning."""
    run = make_run(tmp_path / "a", TRAINED)
    before = run.metrics_file.read_text()

    def found(step=30, time=1040, speed=70.0):
        line = f'{{"step": {step}, "time": {time}, "train/tokens_per_second": {speed}}}\n'
        run.metrics_file.write_text(before + line)
        with lock_run(run.path):
            one = overview_of(run.path, "a")
        return one.step, one.updated, one.tokens_per_second, one.seconds_left

    assert found(time=odd) == (30, 1025.0, 70.0, 140.0)
    assert found(speed=odd) == (30, 1040, None, 140.0)
    assert found(step=odd)[:3] == (20, 1025.0, 60.0)


def test_a_finished_run_and_a_damaged_one_and_no_run(tmp_path):
    make_run(tmp_path / "b/done", [(100, 5.0, {"dev/bleu": 1.0})])
    make_run(tmp_path / "b/bad").path.joinpath("run.json").write_text("{")
    (tmp_path / "b/.hidden").mkdir()
    make_run(tmp_path / "b/.hidden/run")
    (tmp_path / "empty").mkdir()
    found = overview(tmp_path)
    assert [(one.run, one.state) for one in found] == [("b/bad", "damaged"), ("b/done", "finished")]
    assert "run.json" in found[0].error
    assert overview(tmp_path / "empty") == []
    with refused(tmp_path / "gone"):
        overview(tmp_path / "gone")


def link(place, target):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target, target_is_directory=True)


def test_runs_behind_links_are_found_once_and_links_that_lead_back_end(tmp_path):
    """Real folders are searched before links, so that a run within the tree keeps its own name."""
    root, far = tmp_path / "root", tmp_path / "far"
    for path in (root / "z/own", far / "group/one", far / "two"):
        make_run(path)
    link(root / "a_link", root / "z/own")
    link(root / "back/up", root)
    link(root / "far", far)
    link(root / "alone", far / "two")
    link(far / "group/out", tmp_path)
    link(root / "gone", tmp_path / "nothing")
    link(root / ".hidden", far)
    assert [path.relative_to(root).as_posix() for path in find_runs(root)] == ["z/own", "alone", "far/group/one"]


def test_a_link_is_followed_a_few_levels_deep(tmp_path):
    deep = tmp_path / "far"
    for level in range(LINK_LEVELS + 2):
        make_run(deep / "run")
        deep = deep / f"level_{level}"
    link(tmp_path / "root/far", tmp_path / "far")
    found = [len(path.relative_to(tmp_path / "root").parts) - 2 for path in find_runs(tmp_path / "root")]
    assert sorted(found) == list(range(LINK_LEVELS))
