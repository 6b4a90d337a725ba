"""Optional libraries for comparisons in tests, which the project itself does not need."""

import importlib.util
import subprocess
import sys

import pytest

from benchmarks.harness.environments import READY
from benchmarks.harness.flags import peers_home
from benchmarks.peers import ENVIRONMENTS

_APPEND = "import sys; sys.path += {!r}\n"
_PACKAGES = "import site; print(site.getsitepackages()[0])"


def transformers_python() -> str:
    """Returns a Python with transformers: this one, or that of `python -m benchmarks imports`; else skips the test."""
    if all(map(importlib.util.find_spec, ("transformers", "torch"))):
        return sys.executable
    folder = ENVIRONMENTS["huggingface_text"].folder(peers_home())
    if not (folder / READY).is_file():
        pytest.skip("transformers is not installed, nor in the environment of python -m benchmarks imports")
    return str(folder / "bin/python")


def with_transformers(folder) -> str:
    """Returns a shell command that makes transformers importable in this Python, after all its own packages."""
    python = transformers_python()
    packages = subprocess.run([python, "-c", _PACKAGES], capture_output=True, text=True, check=True).stdout.split()
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_APPEND.format(packages))
    return f"export PYTHONPATH={folder}\n"
