"""`t2t-tune`: whole studies; a fake trainer is used if a test needs many runs."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen, decoder, runs, tune
from t2t.registry import HPARAMS, HPARAMS_RANGES
from t2t.tuning import trial_run, tuner
from t2t.tuning.settings import TuneSettings
from t2t.tuning.tuner import gpu_shares
from tests.fake_trainer import bleu
from tests.integration.conftest import TINY, write_digits
from tests.readme import ROOT, blocks, execute, shortened
from tests.registrations import forgotten
from tests.waiting import wait_until

SHORT = "train_steps=6, eval_every=2"
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
    assert datagen.main(["t2t-datagen", *flags]) == 0
    with forgotten(HPARAMS_RANGES):
        yield [
            *flags,
            f"--t2t_usr_dir={folder / 'plugin'}",
            "--model=transformer",
            "--hparams_set=transformer_quickstart",
        ]


@pytest.fixture
def fake(given, monkeypatch):
    """Returns a function that runs a study in this process with the fake trainer."""
    monkeypatch.setattr(trial_run, "_PROGRAM", FAKE)
    monkeypatch.setattr(tuner, "_SECONDS_BETWEEN_LOOKS", 0.05)

    def run(study, *flags):
        usual = [*given, "--train_steps=50", "--local_eval_frequency=10"]
        if not any(flag.startswith("--hparams_range=") for flag in flags):
            usual.append("--hparams_range=rates_range")
        return tune.main(["t2t-tune", f"--study={study}", *usual, *flags])

    return run


def trials_of(study):
    return {one["trial"]: one for one in json.loads((study / "results.json").read_text())["trials"]}


def starts_of(run):
    """The updates from which the processes of a run started or resumed."""
    return [int(line) for line in (run / "starts").read_text().split()]


def lines_in(path):
    return len(path.read_text().splitlines()) if path.is_file() else 0


def test_a_study_from_its_trials_to_the_set_to_paste(fake, tmp_path, capsys):
    study = tmp_path / "study"
    assert fake(study, "--trials=5", "--parallel=2", "--startup_trials=2", "--repeats=2") == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 6
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
    assert runs.main(["t2t-runs", str(study), "--format=tsv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 5 + 2
    # A study is resumed with only its folder; a finished one changes nothing.
    before = {path: path.stat().st_mtime_ns for path in study.glob("trial_*/metrics.jsonl")}
    assert tune.main(["t2t-tune", f"--study={study}"]) == 0
    assert {path: path.stat().st_mtime_ns for path in study.glob("trial_*/metrics.jsonl")} == before


def test_a_study_with_spaces_in_its_hparams_goes_on(fake, tmp_path):
    study, hparams = tmp_path / "study", "--hparams=num_heads=2, hidden_size=64"
    assert fake(study, "--trials=1", hparams) == 0
    assert fake(study, "--trials=2", hparams) == 0
    assert tune.main(["t2t-tune", f"--study={study}", "--trials=3"]) == 0
    assert sorted(trials_of(study)) == [0, 1, 2]


@pytest.fixture
def begun(fake, tmp_path):
    """Returns a study of one trial that is evaluated on 5 batches and starts with other weights, and these."""
    base = CheckpointStore(tmp_path / "base/checkpoints")
    base.save(1, model={"a": np.zeros(1)})
    study = tmp_path / "study"
    flags = ["--trials=1", "--eval_steps=5", f"--warm_start_from={tmp_path / 'base'}", "--filter_max_words=0"]
    assert fake(study, *flags) == 0
    return study, base


def check_refused(study, capsys, said, *flags):
    capsys.readouterr()
    assert tune.main(["t2t-tune", f"--study={study}", "--trials=2", *flags]) == 2
    assert f"--study={study} is another study: {said}" in capsys.readouterr().err
    assert list(trials_of(study)) == [0]


def test_a_study_goes_on_with_the_same_evaluations_data_and_weights_alone(begun, given, tmp_path, capsys):
    study, base = begun
    check_refused(study, capsys, "eval_steps: asked 100, found 5; resume that", "--eval_steps=100")
    check_refused(study, capsys, "warm_start_optimizer: asked True, found False; res", "--warm_start_optimizer")
    other = f"--data_dir={tmp_path / 'data'}"
    assert datagen.main(["t2t-datagen", *given[:-4], other, "--random_seed=5"]) == 0
    check_refused(study, capsys, "fingerprint of the data: asked ", other)
    assert tune.main(["t2t-tune", f"--study={study}"]) == 0
    base.save(2, model={"a": np.ones(1)})
    check_refused(study, capsys, "fingerprint of warm_start_from: asked ")


def test_a_machine_repeats_a_trial_of_another_in_its_own_folder(fake, tmp_path):
    shared = ["--trials=1", f"--storage=sqlite:///{tmp_path / 'study.db'}", "--study_name=both"]
    assert fake(tmp_path / "one", *shared) == 0
    assert fake(tmp_path / "other", *shared, "--repeats=2") == 0
    assert trials_of(tmp_path / "other")[0]["repeats"] == [bleu(0.004, seed, 50) for seed in (1, 2)]
    one, other = ({run.parent.name for run in (tmp_path / name).glob("*/run.json")} for name in ("one", "other"))
    assert one == {"trial_0000"}
    assert other == {"trial_0000_seed_1", "trial_0000_seed_2"}


@pytest.mark.slow
def test_a_killed_tuner_goes_on_with_the_same_trials(fake, given, tmp_path):
    """Its running trial survives the tuner; the new tuner waits for it instead of restarting it."""
    assert fake(tmp_path / "whole", "--trials=4", "--startup_trials=1") == 0
    study, code = tmp_path / "killed", "import sys; from t2t.tuning import trial_run; from t2t.cli.tune import main\n"
    flags = ["--hparams_range=rates_range", "--train_steps=50", "--local_eval_frequency=10", "--startup_trials=1"]
    program = f"{code}trial_run._PROGRAM = {FAKE!r}\nmain(['t2t-tune', *sys.argv[1:]])"
    killed_one = subprocess.Popen(
        [sys.executable, "-c", program, f"--study={study}", *given, *flags, "--trials=4"], cwd=ROOT,
        stderr=subprocess.DEVNULL, env={**os.environ, "FAKE_SECONDS": "0.4"},
    )  # fmt: skip
    try:
        wait_until(lambda: lines_in(study / "trial_0001/metrics.jsonl") >= 1, "an evaluation")
    finally:
        killed_one.kill()
        killed_one.wait()
    assert fake(study, "--trials=4", "--startup_trials=1") == 0
    same = ("state", "bleu", "updates", "learning_rate", "num_heads")
    whole, killed = ({n: [one[name] for name in same] for n, one in trials_of(tmp_path / folder).items()}
                     for folder in ("whole", "killed"))  # fmt: skip
    assert killed == whole
    assert starts_of(study / "trial_0001") == [0]


def test_a_killed_trial_goes_on_where_it_was(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", "20")
    study = tmp_path / "study"

    def kill():
        wait_until(lambda: lines_in(study / "trial_0000/metrics.jsonl") >= 2, "an evaluation")
        os.kill(int((study / "logs/trial_0000.process").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    assert fake(study, "--trials=1") == 0
    killer.join()
    assert trials_of(study)[0]["bleu"] == bleu(0.004, 0, 50)
    first, second = starts_of(study / "trial_0000")
    assert first == 0
    assert second >= 20


@pytest.mark.slow
def test_a_tuner_that_is_asked_to_stop_lets_its_trials_save(fake, given, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_HOLD", "10")
    study = tmp_path / "study"

    def stop():
        wait_until(lambda: lines_in(study / "trial_0000/metrics.jsonl") >= 1, "an evaluation")
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop, daemon=True)
    stopper.start()
    assert fake(study, "--trials=2") == 128 + signal.SIGTERM
    stopper.join()
    assert not (study / "trial_0001").exists()
    monkeypatch.delenv("FAKE_HOLD")
    assert fake(study, "--trials=2") == 0
    assert [one["state"] for one in trials_of(study).values()] == ["finished", "finished"]
    assert starts_of(study / "trial_0000")[1] > 0


@pytest.mark.slow
def test_a_study_all_of_whose_trials_fail_ends_with_the_reason(fake, tmp_path, capsys):
    assert fake(tmp_path / "study", "--trials=9", "--hparams_range=three_heads_range", "--hparams=hidden_size=96") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "the first 3 trials of --study=" in error
    assert "three heads fail" in error


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--objective=dev/bleau"], "--objective=dev/bleau: metric 'bleau' is not known; did you mean bleu"),
        (["--eval_steps=0"], "--eval_steps=0: trials are compared by their evaluations; leave it out"),
        (["--sampler=grid"], "--sampler=grid: learning_rate from 0.0001 to 1.0, log scale has too many values"),
        (["--storage=study.db"], "--storage=study.db: it is no URL"),
        (["--trial_gpus=2", "--parallel=2"], "that is 4 GPUs, and CUDA_VISIBLE_DEVICES=0,1 shows 2"),
        (["--hparams=learning_rate=0.1,num_heads=2"], "the range of hparams is empty"),
        (["--dry_run"], "flag --dry_run does not exist"),
        (["--decode_from_file=a"], "--decode_from_file=a: not supported; files are decoded by t2t-decoder"),
    ],
)
def test_a_mistake_is_one_line_before_anything_trains(fake, flags, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert fake(tmp_path / "study", *flags) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.glob("study/trial_*"))


def test_a_training_run_is_no_study(fake, tmp_path, capsys):
    (tmp_path / "study").mkdir()
    (tmp_path / "study/run.json").write_text("{}")
    assert fake(tmp_path / "study") == 2
    assert "it holds a training run, not a study; name another folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["run.json"]


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


def test_commands_of_tensor2tensor_lead_here(fake, tmp_path, capsys):
    theirs = ["--autotune", "--autotune_maximize=True", "--autotune_max_trials=1", "--autotune_parallel_trials=1"]
    assert fake(tmp_path / "study", *theirs, "--autotune_objective=bleu") == 0
    assert list(trials_of(tmp_path / "study")) == [0]


# === With the trainer itself ===


@pytest.mark.slow
def test_trials_are_ordinary_runs(given, tmp_path, capsys):
    """The same study from Python has equal results, although one of its trials is killed with SIGKILL."""
    import t2t

    hparams = re.sub(r"num_heads=2,|learning_rate=0.01,", "", TINY)
    options = dict(flag.removeprefix("--").split("=", 1) for flag in given)
    study = tmp_path / "study"
    flags = [f"--study={study}", *given, "--hparams_range=rates_range", f"--hparams={hparams}", "--train_steps=8",
             "--local_eval_frequency=2", "--eval_steps=1", "--worker_cpu=1", "--trials=2"]  # fmt: skip

    def kill():
        wait_until(lambda: lines_in(study / "trial_0000/metrics.jsonl") >= 1, "an evaluation", 600)
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(int((study / "logs/trial_0000.process").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    assert tune.main(["t2t-tune", *flags]) == 0
    killer.join()
    capsys.readouterr()
    assert decoder.main(["t2t-decoder", f"--output_dir={study / 'trial_0001'}", "--decode_split=dev",
                         f"--data_dir={options['data_dir']}"]) == 0  # fmt: skip
    problem = {name: value for name, value in options.items() if name.endswith(("source", "target", "kind"))}
    found = t2t.tune(
        "text2text_files", "transformer", "transformer_quickstart", tmp_path / "again", "rates_range", trials=2,
        data_dir=options["data_dir"], usr_dir=options["t2t_usr_dir"], problem_options=problem, hparams=hparams,
        train_steps=8, eval_every=2, eval_steps=1, worker_cpu=1,
    )  # fmt: skip
    values = {row.report.number: (row.report.value, row.report.hparams) for row in found.rows}
    killed = {n: (one["bleu"], {name: one[name] for name in ("learning_rate", "num_heads")})
              for n, one in trials_of(study).items()}  # fmt: skip
    assert killed == values


@pytest.mark.slow
def test_the_commands_of_the_page_run(tmp_path):
    """With two trials of six updates each."""
    page = ROOT / "docs/tuning.md"
    for one in blocks(page):
        if one.kind == "write":
            (tmp_path / one.name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / one.name).write_text(one.text)
    for one in blocks(page):
        text = (
            shortened(one.text) if one.language == "bash" else re.sub("train_steps=300, eval_every=75", SHORT, one.text)
        )
        if one.kind == "run":
            done = execute(one.language, text.replace("trials=20", "trials=2"), tmp_path)
            assert done.returncode == 0, f"{one.name}:\n{done.stdout}\n{done.stderr}"
    for study in ("study", "own", "from_python"):
        assert len(json.loads((tmp_path / study / "results.json").read_text())["trials"]) == 2
