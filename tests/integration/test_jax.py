"""The tests of JAX, in a process with Keras on it, which compares with what TensorFlow computes here."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jaxlib") is None, reason="JAX is not installed")
def test_jax_computes_what_tensorflow_does(tmp_path):
    compare(tmp_path, "training", "decoding")


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.skipif(importlib.util.find_spec("jaxlib") is None, reason="JAX is not installed")
def test_every_model_learns_and_decodes_on_jax_as_on_tensorflow(tmp_path):
    compare(tmp_path, "model")


@pytest.mark.exhaustive
@pytest.mark.skipif(importlib.util.find_spec("jaxlib") is None, reason="JAX is not installed")
def test_what_holds_of_updates_holds_on_jax(tmp_path):
    """By hand, however they are cut; dropout, mixtures and statistics."""
    parts = ("updates", "dropout", "mixture", "statistics")
    run_on_jax(tmp_path, *(f"tests/equivalence/test_equivalence_{part}.py" for part in parts))


def compare(folder, *subjects):
    """Computes the cases of subjects on TensorFlow, and runs the tests that compare JAX's with them."""
    for subject in subjects:
        for name, compute in importlib.import_module(f"tests.on_jax.{subject}_cases").CASES.items():
            assert not (folder / f"{name}.npz").exists(), f"two cases are called {name}"
            np.savez(folder / f"{name}.npz", **compute())
    tests = [str(path) for subject in subjects for path in ROOT.glob(f"tests/on_jax/test_jax_{subject}*.py")]
    run_on_jax(folder, *tests, "-m", "", "--confcutdir", "tests/on_jax", T2T_EXPECTED=str(folder))


def run_on_jax(folder, *options, **variables):
    """Runs tests in a process of JAX, with the programs that it compiles in a folder."""
    environment = {**os.environ, "KERAS_BACKEND": "jax", "T2T_CACHE": str(folder / "cache"), **variables}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-n", "0", "-p", "no:cacheprovider"],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-20_000:]


@pytest.mark.exhaustive
@pytest.mark.skipif(importlib.util.find_spec("jaxlib") is None, reason="JAX is not installed")
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
