"""Distributed training with several real processes on one machine, each with one replica.

Slow: nothing quicker has several processes that can be lost.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess

import numpy as np
import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.cli import datagen
from tests.commands import python
from tests.in_process import call
from tests.integration.test_mixture import COPY, REVERSE
from tests.integration.test_mixture import TINY as MIXED

pytestmark = pytest.mark.slow

HPARAMS = "ema_decay=0.9,clip_grad_norm=1.0,gradient_noise=0.01,relu_dropout=0.1,attention_dropout=0.1"
LOST = 138
LIMIT_S = 1200
"""Time limit of workers in seconds."""


def free_addresses(count):
    """Returns addresses `localhost:port` of free ports below those that the system gives to other servers."""
    found = []
    for port in random.SystemRandom().sample(range(15_000, 32_000), 1000):  # other processes look, too
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("localhost", port))
            found.append(f"localhost:{port}")
        if len(found) == count:
            return found
    raise AssertionError(f"fewer than {count} free ports")


def trainer():
    return python("-c", "import sys; from t2t.cli.trainer import main; sys.exit(main())")


def start(flags, count, commands=None):
    """Starts `count` workers with the same flags; `commands` replaces the trainer's command by worker index."""
    hosts = ",".join(free_addresses(count))
    return [
        subprocess.Popen(
            [*((commands or {}).get(index) or trainer()), *flags, f"--worker_hosts={hosts}", f"--worker_index={index}"],
            stderr=subprocess.PIPE, text=True,
        )
        for index in range(count)
    ]  # fmt: skip


def finish(processes):
    """Returns the exit statuses of workers and their stderr."""
    try:
        written = [process.communicate(timeout=LIMIT_S)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()  # a hung worker would keep its port
            process.wait()
    return [process.returncode for process in processes], written


def signalling(name, update):
    return {1: python("-m", "tests.worker", name, str(update))}


def arrays_of(folder):
    """Returns step, state and arrays by name of a run's latest checkpoint."""
    found = CheckpointStore(folder / "checkpoints").load()
    parts = {"model": found.model, "optimizer": found.optimizer, "ema": found.ema or {}}
    arrays = {f"{part}/{name}": array for part, named in parts.items() for name, array in named.items()}
    return found.step, found.state, arrays


def evaluations_of(folder):
    """Returns the logged figures of each evaluation of a run, without times."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    evaluations = [{name: line[name] for name in line if name != "time"} for line in lines]
    return [figures for figures in evaluations if any(name.startswith("dev/") for name in figures)]


def assert_identical(folder, other):
    (step, state, arrays), (other_step, other_state, others) = arrays_of(folder), arrays_of(other)
    assert (step, state, arrays.keys()) == (other_step, other_state, others.keys())
    assert [name for name, array in arrays.items() if array.tobytes() != others[name].tobytes()] == []


def flags_of(tiny_run):
    """Flags of training without evaluation, which would take most of the time."""
    own = [flag for flag in tiny_run.train_flags if not flag.startswith(("--local_eval", "--eval", "--worker_cpu"))]
    return [*own, f"--hparams={HPARAMS}", "--local_eval_frequency=10", "--schedule=train"]


def assert_told_of_different_commands(flags, folder):
    other = (*trainer(), "--hparams=optimizer_adam_epsilon=1e-8")
    statuses, written = finish(start([*flags, f"--output_dir={folder}", "--train_steps=2"], 2, {1: other}))
    assert statuses == [2, 2], written
    for text in written:
        assert "trains with another hparam than worker 0" in text.splitlines()[-1]
    assert not os.path.exists(folder / "run.json")


@pytest.fixture
def flags(tiny_run):
    return flags_of(tiny_run)


def alone(flags, folder, replicas=2):
    """Trains in one fresh process: the tests' process has other threads, which changes rounding."""
    command = [*trainer(), *flags, f"--output_dir={folder}", f"--worker_cpu={replicas}"]
    subprocess.run(command, check=True, timeout=LIMIT_S, stderr=subprocess.DEVNULL)
    return folder


def together(flags, folder, count=2, commands=None):
    """Trains with workers; returns what they wrote."""
    statuses, written = finish(start([*flags, f"--output_dir={folder}"], count, commands))
    assert statuses == [0] * count, written
    return written


@pytest.mark.parametrize(
    "more", ["", pytest.param(",xla=on,fixed_shapes=1", marks=pytest.mark.exhaustive)], ids=["", "XLA"]
)
def test_two_workers_are_one_process_of_two_replicas(flags, tmp_path, monkeypatch, more):
    """Each worker decodes and scores a part of the dev split in small batches; the chief logs the joint figures."""
    own = [flag for flag in flags if not flag.startswith(("--local_eval", "--schedule"))]
    flags = [flag.replace("batch_size=256", "batch_size=32") for flag in own]
    flags += ["--train_steps=6", "--local_eval_frequency=3", "--eval_steps=4"]
    flags.append(f"--hparams=decode_batch_size=40,effective_batch_size=128{more}")
    expected, folder = alone(flags, tmp_path / "alone"), tmp_path / "together"
    chief, worker = free_addresses(2)
    cluster = {"chief": [chief], "worker": [worker]}
    processes = []
    for kind in cluster:
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}}))
        command = [*trainer(), *flags, f"--output_dir={folder}"]
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    statuses, (of_chief, of_worker) = finish(processes)
    assert statuses == [0, 0], of_chief + of_worker
    assert_identical(expected, folder)
    assert [figures["step"] for figures in evaluations_of(folder)] == [3, 6]
    assert evaluations_of(folder) == evaluations_of(expected)
    assert "2 replicas x 2 steps = 128 an update" in of_chief
    assert "update" not in of_worker, "the chief alone reports"


def test_a_worker_whose_others_are_missing_names_them_and_can_be_stopped(flags, tmp_path):
    hosts = free_addresses(2)
    command = [*trainer(), *flags, f"--output_dir={tmp_path / 'run'}", f"--worker_hosts={','.join(hosts)}"]
    with subprocess.Popen([*command, "--worker_index=0"], stderr=subprocess.PIPE, text=True) as process:
        try:
            said = next(line for line in process.stderr if "waits for" in line)
            assert said.rstrip().endswith(f"worker 0 ({hosts[0]}) waits for worker 1 ({hosts[1]})")
            process.terminate()
            assert process.wait(timeout=LIMIT_S) == -signal.SIGTERM
        finally:
            process.kill()
    assert not (tmp_path / "run/run.json").exists()


@pytest.mark.exhaustive  # the same of adapters and the mean of the best ones
def test_workers_train_adapters_and_average_the_best_as_one_process_does(flags, tiny_run, tmp_path):
    own = [flag for flag in flags if not flag.startswith(("--local_eval", "--schedule"))]
    own += ["--train_steps=4", "--local_eval_frequency=2", "--eval_steps=4", "--keep_best_checkpoints=2"]
    own += ["--hparams=lora_rank=2", f"--warm_start_from={tiny_run.output_dir}"]
    expected, folder = alone(own, tmp_path / "alone"), tmp_path / "together"
    together(own, folder)
    assert_identical(folder, expected)
    stores = [CheckpointStore(run / "checkpoints") for run in (expected, folder)]
    first, second = (store.load_model("averaged-best").weights for store in stores)
    base = CheckpointStore(tiny_run.output_dir / "checkpoints").load_model().weights
    assert first.keys() == second.keys() == base.keys()
    assert [path for path, array in first.items() if array.tobytes() != second[path].tobytes()] == []
    assert any(array.tobytes() != base[path].tobytes() for path, array in second.items())


@pytest.mark.exhaustive  # that all workers train on the same problem in each update, and evaluate both
def test_workers_learn_a_mixture_as_one_process_does(tmp_path):
    both = [f"--problems={COPY}-{REVERSE}", f"--data_dir={tmp_path / 'data'}"]
    call(datagen, *both)
    flags = [
        *both, "--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={MIXED},{HPARAMS}",
        "--train_steps=8", "--local_eval_frequency=4", "--eval_steps=2",
    ]  # fmt: skip
    expected, folder = alone(flags, tmp_path / "alone"), tmp_path / "together"
    together(flags, folder)
    assert_identical(expected, folder)
    assert evaluations_of(folder) == evaluations_of(expected)


def test_a_worker_that_is_killed_or_stopped_ends_all_and_all_go_on_exactly(flags, tmp_path):
    folder = tmp_path / "run"
    begin = [*flags, f"--output_dir={folder}", "--train_steps=30"]
    statuses, (of_chief, _) = finish(start(begin, 2, signalling("SIGKILL", 13)))
    assert statuses == [LOST, -signal.SIGKILL]
    assert "has lost worker 1 (localhost:" in of_chief.splitlines()[-1]
    assert CheckpointStore(folder / "checkpoints").latest() == 10
    statuses, written = finish(start(begin, 2, signalling("SIGTERM", 17)))
    assert statuses == [128 + signal.SIGTERM] * 2, written
    assert "after update 10, going to update 30" in written[0]
    assert "stopped by SIGTERM to worker 1 (localhost:" in written[0]
    assert CheckpointStore(folder / "checkpoints").latest() == 19, "asked with update 18, read during 19"
    assert_identical(alone([*flags, "--train_steps=19"], tmp_path / "alone"), folder)


@pytest.mark.exhaustive  # that a killed chief ends the others, and one process goes on with the same examples
def test_a_killed_chief_ends_the_others_and_one_process_goes_on_with_the_same_examples(flags, tmp_path):
    folder = tmp_path / "run"
    flags = [*flags, "--train_steps=20"]
    kills_itself = {0: signalling("SIGKILL", 13)[1]}
    statuses, (_, *others) = finish(start([*flags, f"--output_dir={folder}"], 3, kills_itself))
    assert statuses == [-signal.SIGKILL, LOST, LOST]
    for written in others:
        assert "has lost worker 0 (localhost:" in written.splitlines()[-1]
    alone(flags, folder, replicas=3)
    step, state, arrays = arrays_of(folder)
    other_step, other_state, other_arrays = arrays_of(alone(flags, tmp_path / "alone", replicas=3))
    assert (step, state) == (other_step, other_state)
    for name, array in arrays.items():  # the three replicas are summed in another order
        np.testing.assert_allclose(array, other_arrays[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_workers_of_different_commands_are_told_so(flags, tmp_path):
    assert_told_of_different_commands(flags, tmp_path / "run")
