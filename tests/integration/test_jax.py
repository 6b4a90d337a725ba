"""The tests of JAX, in a process with Keras on it, which compares with what TensorFlow computes here."""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jaxlib") is None, reason="JAX is not installed")
def test_jax_computes_what_tensorflow_does(tmp_path):
    for module in sorted(ROOT.glob("tests/on_jax/*_cases.py")):
        for name, compute in importlib.import_module(f"tests.on_jax.{module.stem}").CASES.items():
            np.savez(tmp_path / f"{name}.npz", **compute())
    environment = {
        **os.environ, "KERAS_BACKEND": "jax", "T2T_EXPECTED": str(tmp_path), "T2T_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    options = ["-m", "", "-n", "0", "--confcutdir", "tests/on_jax", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/on_jax", *options],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-20_000:]
