"""Imports TensorFlow without the lines that its libraries print while they start."""

import contextlib
import glob
import importlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import BinaryIO

_STARTING = re.compile(r"[IWE]\d{4} |WARNING: All log messages before absl|To enable the following instructions|\s*$")
"""Lines that TensorFlow prints before its log level can be set."""

_REDIRECTING = threading.RLock()
"""Held while stderr is redirected: two threads that did so at the same time would not restore it."""


def import_quietly(module: str) -> ModuleType:
    """Imports a module that imports TensorFlow; see `quietly`."""
    if module in sys.modules:
        return sys.modules[module]
    with quietly():
        return importlib.import_module(module)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Drops what TensorFlow's libraries print while they start; anything else is printed when the block ends.

    Sets TF_CPP_MIN_LOG_LEVEL where the user has not. Where TensorFlow has started already, the block just runs.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    # Where there is no GPU, TensorFlow reports as an error that it found none.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if glob.glob("/dev/nvidia*") else "3")
    with _REDIRECTING, _scratch() as printed, _redirected(printed):
        yield


@contextlib.contextmanager
def _redirected(printed: BinaryIO) -> Iterator[None]:
    """Sends stderr, also that of C++ libraries, to a file for the length of a `with` block, then shows the rest."""
    try:
        saved = os.dup(2)
    except OSError:  # the process has no stderr
        yield
        return
    _flush()
    os.dup2(printed.fileno(), 2)
    try:
        yield
    finally:
        _flush()
        os.dup2(saved, 2)
        os.close(saved)
        printed.seek(0)
        kept = [line for line in printed.read().decode(errors="replace").split("\n") if not _STARTING.match(line)]
        if kept:
            print(*kept, sep="\n", file=sys.stderr)


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()


def _scratch() -> BinaryIO:
    """Returns a file for a while: in memory where the system has that, so that no full disk keeps a command from it."""
    return os.fdopen(os.memfd_create("printed"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()
