"""Runs the tests on JAX in a separate process, which compares with TensorFlow's results from this process."""

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from tests.integration import test_workers as workers
from tests.readme import PHRASES, translate_quickstart

ROOT = Path(__file__).parents[2]


needs_jax = pytest.mark.skipif(importlib.util.find_spec("jaxlib") is None, reason="JAX is not installed")


@pytest.mark.slow  # that JAX, which is imported by a process of its own, computes what TensorFlow does
@needs_jax
def test_jax_computes_what_tensorflow_does(tmp_path):
    compare(tmp_path, "training", "decoding")


@pytest.mark.exhaustive  # the same of every model
@pytest.mark.timeout(7200)
@needs_jax
def test_every_model_learns_and_decodes_on_jax_as_on_tensorflow(tmp_path):
    compare(tmp_path, "model")


@pytest.mark.exhaustive  # the tests of what is equal, on JAX
@needs_jax
def test_what_holds_of_updates_holds_on_jax(tmp_path):
    parts = ("updates", "layers", "parts")
    run_on_jax(tmp_path, *(f"tests/equivalence/test_equivalence_{part}.py" for part in parts))


@pytest.mark.exhaustive  # that values of hparams that are valid alone go together on JAX, too
@pytest.mark.timeout(7200)
@needs_jax
def test_sampled_hparams_compute_on_jax(tmp_path):
    run_on_jax(tmp_path, "tests/conformance/test_conformance_sampled_hparams.py", "-m", "")


@pytest.mark.exhaustive  # that the quickstart learns on JAX
@needs_jax
def test_the_first_line_of_the_readme_translates_on_jax(tmp_path):
    assert translate_quickstart(tmp_path, before="KERAS_BACKEND=jax") == PHRASES


@pytest.fixture
def flags(tiny_run, tmp_path, monkeypatch):
    """Flags of training on JAX without evaluation."""
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("T2T_CACHE", str(tmp_path / "cache"))
    return workers.flags_of(tiny_run)


@pytest.mark.slow  # that processes agree on the shapes of their batches
@needs_jax
def test_two_workers_are_one_process_of_two_replicas(flags, tmp_path):
    """Bitwise equal, with batches of different shapes, which the workers agree on."""
    flags = [*flags, "--train_steps=2", "--hparams=effective_batch_size=1024,num_hidden_layers=1"]
    expected = workers.alone(flags, tmp_path / "alone")
    statuses, written = workers.finish(workers.start([*flags, f"--output_dir={tmp_path / 'together'}"], 2))
    assert statuses == [0, 0], written
    workers.assert_identical(expected, tmp_path / "together")
    assert "2 replicas x 2 steps = 1,024 an update" in written[0]
    assert "update" not in written[1], "the chief alone reports"


@pytest.mark.exhaustive  # that lost processes end the others
@needs_jax
def test_a_worker_that_is_killed_stopped_or_refused_ends_all(flags, tmp_path):
    folder = tmp_path / "run"
    begin = [*flags, f"--output_dir={folder}", "--train_steps=30"]
    statuses, written = workers.finish(workers.start(begin, 2, workers.signalling("SIGKILL", 13)))
    assert statuses == [workers.LOST, -signal.SIGKILL]
    assert "worker 0 (localhost:" in written[0].splitlines()[-1]
    assert "has lost worker 1 (localhost:" in written[0].splitlines()[-1]
    statuses, written = workers.finish(workers.start(begin, 2, workers.signalling("SIGTERM", 17)))
    assert statuses == [128 + signal.SIGTERM] * 2, written
    assert "after update 10, going to update 30" in written[0]
    workers.assert_identical(workers.alone([*flags, "--train_steps=19"], tmp_path / "alone"), folder)
    statuses, _ = workers.finish(workers.start(begin, 2, {0: workers.signalling("SIGKILL", 23)[1]}))
    assert statuses[0] == -signal.SIGKILL
    assert statuses[1] in (workers.LOST, -signal.SIGABRT), "JAX aborts where it finds out first"
    workers.assert_told_of_different_commands(flags, tmp_path / "other")


def compare(folder, *subjects):
    """Computes the cases of some subjects on TensorFlow, and runs the tests that compare JAX with them."""
    for subject in subjects:
        for name, compute in importlib.import_module(f"tests.on_jax.{subject}_cases").CASES.items():
            assert not (folder / f"{name}.npz").exists(), f"two cases are called {name}"
            np.savez(folder / f"{name}.npz", **compute())
    tests = [str(path) for subject in subjects for path in ROOT.glob(f"tests/on_jax/test_jax_{subject}*.py")]
    run_on_jax(folder, *tests, "-m", "", "--confcutdir", "tests/on_jax", T2T_EXPECTED=str(folder))


def run_on_jax(folder, *options, **variables):
    """Runs tests in two processes with the JAX backend, whose compiled programs are cached in `folder`."""
    environment = {**os.environ, "KERAS_BACKEND": "jax", "T2T_CACHE": str(folder / "cache"), **variables}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-n", "2", "-p", "no:cacheprovider"],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-20_000:]


@pytest.mark.exhaustive  # that both engines are compared
@needs_jax
def test_the_benchmark_of_both_engines(tmp_path, capsys):
    rows = tmp_path / "rows.json"
    flags = ["--config=mini", "--turns=1", "--again=0", "--pairs=400", "--vocab_size=600", f"--json={rows}"]
    decoding = ["--train_steps=2", "--sentences=4", "--batch=2", "--beams=2"]
    assert main(["engines", *flags, *decoding, f"--peers_home={tmp_path}"]) == 0
    found = {row["work"]: row for row in json.loads(rows.read_text())}
    assert found["training.loss"]["ratio"] == pytest.approx(1, rel=0.1)  # other dropout, other batches
    assert found["decoding.beam2.same"]["ours"] == 1
    assert found["training"]["peer"] == "t2t_jax"
    assert found["training"]["theirs"] > 0
