"""`t2t-tune`: whole studies; a fake trainer is used if a test needs many runs."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen, decoder, runs, tune
from t2t.hparams.transformer import transformer_quickstart
from t2t.registry import HPARAMS, HPARAMS_RANGES
from t2t.specs.features import ProblemSpec
from t2t.tuning import tuner
from t2t.tuning.settings import TuneSettings
from t2t.tuning.tuner import gpu_shares
from tests.fake_trainer import bleu
from tests.in_process import call, refuses
from tests.integration.conftest import TINY, write_digits
from tests.readme import ROOT, blocks, shortened, succeed
from tests.registrations import forgotten
from tests.waiting import join_all, start_thread, wait_until

SHORT = "train_steps=6, local_eval_frequency=2"
FAKE = "import sys; from tests.fake_trainer import main; sys.exit(main(sys.argv[1:]))"
PLUGIN = """
from t2t import register_ranged_hparams


@register_ranged_hparams
def rates_range(rhp):
    rhp.set_float("learning_rate", 0.0001, 1.0, scale=rhp.LOG_SCALE)
    rhp.set_discrete("num_heads", [1, 2, 4])


@register_ranged_hparams
def three_heads_range(rhp):
    rhp.set_discrete("num_heads", [3])
"""


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Flags that all studies here share."""
    folder = tmp_path_factory.mktemp("tune")
    (folder / "raw").mkdir()
    (folder / "plugin").mkdir()
    (folder / "plugin/__init__.py").write_text(PLUGIN)
    flags = [*write_digits(folder / "raw"), f"--data_dir={folder / 'data'}"]
    call(datagen, *flags)
    model = ["--model=transformer", "--hparams_set=transformer_quickstart"]
    with forgotten(HPARAMS_RANGES):
        yield [*flags, f"--t2t_usr_dir={folder / 'plugin'}", *model]


@pytest.fixture
def fake(given, monkeypatch):
    """Returns a function that runs a study in this process with the fake trainer; `about`: what it is refused for."""
    monkeypatch.setattr(tuner, "_PROGRAM", FAKE)
    monkeypatch.setattr(tuner, "_SECONDS_BETWEEN_LOOKS", 0.05)

    def run(study, *flags, status=0, about=None):
        usual = [*given, f"--study={study}", "--train_steps=50", "--local_eval_frequency=10"]
        if not any(flag.startswith("--hparams_range=") for flag in flags):
            usual.append("--hparams_range=rates_range")
        if about is not None:
            return refuses(tune, about, *usual, *flags)
        return call(tune, *usual, *flags, status=status)

    return run


def trials_of(study):
    return {one["trial"]: one for one in json.loads((study / "results.json").read_text())["trials"]}


def starts_of(run):
    """The updates from which the processes of a run started or resumed."""
    return [int(line) for line in (run / "starts").read_text().split()]


def lines_in(path):
    return len(path.read_text().splitlines()) if path.is_file() else 0


def test_a_study_from_its_trials_to_the_set_to_paste(fake, tmp_path):
    study = tmp_path / "study"
    assert fake(study, "--trials=5", "--parallel=2", "--startup_trials=2", "--repeats=2").out.count("\n") == 6
    found = trials_of(study)
    assert sorted(found) == list(range(5))
    assert (found[0]["learning_rate"], found[0]["num_heads"]) == (0.004, 4)  # the set's own
    assert found[0]["bleu"] == bleu(0.004, 0, 50)
    assert found[0]["repeats"] == [bleu(0.004, seed, 50) for seed in (1, 2)]
    for one in found.values():
        assert one["bleu"] == pytest.approx(bleu(one["learning_rate"], 0, one["updates"]))
        assert (one["state"] == "finished") == (one["updates"] == 50)
    assert {one["state"] for one in found.values()} == {"finished", "stopped"}
    with forgotten(HPARAMS), HPARAMS.open():
        exec((study / "best_set.py").read_text(), {"__name__": "pasted"})
        pasted = HPARAMS.get("transformer_quickstart_tuned")()
    assert (pasted.learning_rate, pasted.num_heads, pasted.train_steps) == (0.004, 4, 50)
    assert call(runs, study, "--format=tsv").out.count("\n") == 1 + 5 + 2
    # A study is resumed with only its folder; a finished one changes nothing.
    before = {path: path.stat().st_mtime_ns for path in study.glob("trial_*/metrics.jsonl")}
    call(tune, study=study)
    assert {path: path.stat().st_mtime_ns for path in study.glob("trial_*/metrics.jsonl")} == before


def test_a_study_goes_on_with_the_same_evaluations_data_and_weights_alone(fake, given, tmp_path):
    """Also with spaces in its hparams."""
    base, study, other = CheckpointStore(tmp_path / "base/checkpoints"), tmp_path / "study", tmp_path / "data"
    base.save(1, model={"a": np.zeros(1)})
    flags = ["--eval_steps=5", f"--warm_start_from={tmp_path / 'base'}", "--filter_max_words=0"]
    fake(study, "--trials=1", "--hparams=num_heads=2, hidden_size=64", *flags)

    def check_refused(about, *flags):
        refuses(tune, f"--study={study} {about}", "--trials=2", *flags, study=study)
        assert list(trials_of(study)) == [0]

    check_refused("eval_steps: 100, 5;", "--eval_steps=100")
    check_refused("warm_start_optimizer: True, False;", "--warm_start_optimizer")
    call(datagen, *given[:-4], "--random_seed=5", data_dir=other)
    check_refused("data:", f"--data_dir={other}")
    call(tune, "--trials=2", study=study)
    assert sorted(trials_of(study)) == [0, 1]
    base.save(2, model={"a": np.ones(1)})
    refuses(tune, f"--study={study} warm_start_from:", "--trials=3", study=study)


def test_a_study_takes_missing_names_from_the_run_that_its_trials_start_with(tmp_path):
    record = RunRecord(
        problem="translate_ende_numbers", model="transformer", hparams_set="transformer_quickstart",
        hparams=transformer_quickstart().to_dict(), spec=ProblemSpec(name="translate_ende_numbers"),
    )  # fmt: skip
    RunDir.create(tmp_path / "base", record, {})
    start, study = f"--warm_start_from={tmp_path / 'base'}", tmp_path / "study"
    refuses(tune, "--hparams_range:", start, study=study)
    refuses(tune, "--problem --model --hparams_set", f"--warm_start_from={tmp_path}", study=study)


def test_a_machine_repeats_a_trial_of_another_in_its_own_folder(fake, tmp_path):
    shared = ["--trials=1", f"--storage=sqlite:///{tmp_path / 'study.db'}", "--study_name=both"]
    fake(tmp_path / "one", *shared)
    fake(tmp_path / "other", *shared, "--repeats=2")
    assert trials_of(tmp_path / "other")[0]["repeats"] == [bleu(0.004, seed, 50) for seed in (1, 2)]
    one, other = ({run.parent.name for run in (tmp_path / name).glob("*/run.json")} for name in ("one", "other"))
    assert one == {"trial_0000"}
    assert other == {"trial_0000_seed_1", "trial_0000_seed_2"}


@pytest.mark.slow  # that the trials of a killed tuner, a process, are those of one that was not
def test_a_killed_tuner_goes_on_with_the_same_trials(fake, given, tmp_path):
    """Its running trial survives the tuner; the new tuner waits for it instead of restarting it."""
    fake(tmp_path / "whole", "--trials=4", "--startup_trials=1")
    study, code = tmp_path / "killed", "import sys; from t2t.tuning import tuner; from t2t.cli.tune import main\n"
    flags = ["--hparams_range=rates_range", "--train_steps=50", "--local_eval_frequency=10", "--startup_trials=1"]
    program = f"{code}tuner._PROGRAM = {FAKE!r}\nmain(['t2t-tune', *sys.argv[1:]])"
    killed_one = subprocess.Popen(
        [sys.executable, "-c", program, f"--study={study}", *given, *flags, "--trials=4"], cwd=ROOT,
        stderr=subprocess.DEVNULL, env={**os.environ, "FAKE_SECONDS": "0.4"},
    )  # fmt: skip
    try:
        wait_until(lambda: lines_in(study / "trial_0001/metrics.jsonl") >= 1, "an evaluation")
    finally:
        killed_one.kill()
        killed_one.wait()
    fake(study, "--trials=4", "--startup_trials=1")
    same = ("state", "bleu", "updates", "learning_rate", "num_heads")
    whole, killed = ({n: [one[name] for name in same] for n, one in trials_of(tmp_path / folder).items()}
                     for folder in ("whole", "killed"))  # fmt: skip
    assert killed == whole
    assert starts_of(study / "trial_0001") == [0]


@pytest.fixture
def after_evaluations(tmp_path):
    """Returns a function that calls another in a thread, after some evaluations of the first trial of the study."""
    threads = []

    def begin(count, then):
        def wait():
            wait_until(lambda: lines_in(tmp_path / "study/trial_0000/metrics.jsonl") >= count, "an evaluation", 600)
            then()

        threads.append(start_thread(wait))

    yield begin
    join_all(*threads, seconds=600)


def kill_trial(study):
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(int((study / "logs/trial_0000.process").read_text()), signal.SIGKILL)


def test_a_killed_trial_goes_on_where_it_was(fake, tmp_path, monkeypatch, after_evaluations):
    monkeypatch.setenv("FAKE_HOLD", "20")
    study = tmp_path / "study"
    after_evaluations(2, lambda: kill_trial(study))
    fake(study, "--trials=1")
    assert trials_of(study)[0]["bleu"] == bleu(0.004, 0, 50)
    first, second = starts_of(study / "trial_0000")
    assert first == 0
    assert second >= 20


@pytest.mark.slow  # that a signal to the process of a tuner lets its trials save; it is sent to this one
def test_a_tuner_that_is_asked_to_stop_lets_its_trials_save(fake, tmp_path, monkeypatch, after_evaluations):
    monkeypatch.setenv("FAKE_HOLD", "10")
    study = tmp_path / "study"
    after_evaluations(1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    fake(study, "--trials=2", status=128 + signal.SIGTERM)
    assert not (study / "trial_0001").exists()
    monkeypatch.delenv("FAKE_HOLD")
    fake(study, "--trials=2")
    assert [one["state"] for one in trials_of(study).values()] == ["finished", "finished"]
    assert starts_of(study / "trial_0000")[1] > 0


def test_a_study_all_of_whose_trials_fail_ends_with_the_reason(fake, tmp_path):
    flags = ["--trials=9", "--hparams_range=three_heads_range", "--hparams=hidden_size=96"]
    fake(tmp_path / "study", *flags, about="3 --study= heads")
    assert [one["error"].split()[-1] for one in trials_of(tmp_path / "study").values()] == ["fail"] * 3


def test_a_tie_of_all_trials_is_said_and_a_study_goes_on_from_another_folder(fake, given, tmp_path, monkeypatch):
    """The fake trainer's results do not depend on the heads."""
    flag = "--hparams=learning_rate=0.004"
    monkeypatch.chdir(tmp_path)
    relative = [re.sub(r"=(/.*)", lambda path: f"={os.path.relpath(path[1])}", one) for one in given]
    usual = [
        "--study=study",
        "--storage=sqlite:///a.db",
        "--train_steps=50",
        "--local_eval_frequency=10",
        "--hparams_range=rates_range",
    ]
    assert "warning: all trials" not in call(tune, *relative, *usual, flag, "--trials=1").err
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "warning: all trials" in call(tune, f"--study={tmp_path / 'study'}", "--trials=2", "--pruner=none").err
    assert [one["state"] for one in trials_of(tmp_path / "study").values()] == ["finished"] * 2


@pytest.mark.parametrize(
    ("flag", "about"),
    [
        ("--objective=dev/bleau", "--objective=dev/bleau: 'bleau' bleu"),
        ("--eval_steps=0", "--eval_steps=0:"),
        ("--sampler=grid", "--sampler=grid: learning_rate"),
        ("--storage=study.db", "--storage=study.db:"),
        ("--trial_gpus=2 --parallel=2", "4 CUDA_VISIBLE_DEVICES=0,1 2"),
        ("--hparams=learning_rate=0.1,num_heads=2", "hparams"),
        ("--dry_run", "--dry_run"),
        ("--decode_from_file=a", "--decode_from_file=a: t2t-decoder"),
    ],
)
def test_a_mistake_is_one_line_before_anything_trains(fake, flag, about, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    fake(tmp_path / "study", *flag.split(), about=about)
    assert not list(tmp_path.glob("study/trial_*"))


def test_a_training_run_is_no_study_and_flags_of_tensor2tensor_lead_here(fake, tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study/run.json").write_text("{}")
    fake(tmp_path / "study", about=f"{tmp_path / 'study'}")
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["run.json"]
    theirs = ["--autotune", "--autotune_maximize=True", "--autotune_max_trials=1", "--autotune_parallel_trials=1"]
    fake(tmp_path / "theirs", *theirs, "--autotune_objective=bleu")
    assert list(trials_of(tmp_path / "theirs")) == [0]


def test_without_optuna_a_line_says_what_to_install(given, tmp_path):
    code = "import sys; sys.modules['optuna'] = None; from t2t.cli.tune import main; sys.exit(main(sys.argv))"
    command = [sys.executable, "-c", code, f"--study={tmp_path / 'study'}", *given, "--hparams_range=rates_range"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert "t2t-tune: the package optuna is not installed; pip install 't2t-keras[tune]'" in done.stderr


def test_each_trial_has_its_share_of_the_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert gpu_shares(TuneSettings(parallel=2, trial_gpus=2)) == ["4,5", "6,7"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert gpu_shares(TuneSettings(parallel=2, trial_gpus=1)) == ["0", "1"]
    assert gpu_shares(TuneSettings(parallel=2)) == []


# === With the trainer itself ===
@pytest.mark.slow  # that trials are runs, and a study from Python is the same although one of them is killed here
def test_trials_are_ordinary_runs(given, tmp_path, after_evaluations):
    hparams = re.sub(r"num_heads=2,|learning_rate=0.01,", "", TINY)
    options = dict(flag.removeprefix("--").split("=", 1) for flag in given)
    study, data_dir = tmp_path / "study", options["data_dir"]
    after_evaluations(1, lambda: kill_trial(study))
    call(
        tune, *given, "--hparams_range=rates_range", f"--hparams={hparams}", "--train_steps=8", "--trials=2",
        "--local_eval_frequency=2", "--eval_steps=1", "--worker_cpu=1", study=study,
    )  # fmt: skip
    call(decoder, "--decode_split=dev", output_dir=study / "trial_0001", data_dir=data_dir)
    problem = {name: value for name, value in options.items() if name.endswith(("source", "target", "kind"))}
    found = t2t.tune(
        "text2text_files", "transformer", "transformer_quickstart", tmp_path / "again", "rates_range", trials=2,
        data_dir=data_dir, t2t_usr_dir=options["t2t_usr_dir"], problem_options=problem, hparams=hparams,
        train_steps=8, local_eval_frequency=2, eval_steps=1, worker_cpu=1,
    )  # fmt: skip
    values = {row.report.number: (row.report.value, row.report.hparams) for row in found.rows}
    names = ("learning_rate", "num_heads")
    assert values == {n: (one["bleu"], {name: one[name] for name in names}) for n, one in trials_of(study).items()}


@pytest.mark.slow  # that the commands of the page run, with two trials of six updates each
def test_the_commands_of_the_page_run(tmp_path):
    page = ROOT / "docs/tuning.md"
    for one in blocks(page):
        if one.kind == "write":
            (tmp_path / one.name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / one.name).write_text(one.text)
    for one in (one for one in blocks(page) if one.kind == "run"):
        short = one.text.replace("train_steps=300, local_eval_frequency=75", SHORT)
        short = (shortened(short) if one.language == "bash" else short).replace("trials=20", "trials=2")
        succeed(short, tmp_path, one.language)
    for study in ("study", "own", "from_python"):
        assert len(json.loads((tmp_path / study / "results.json").read_text())["trials"]) == 2
