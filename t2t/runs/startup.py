"""Imports TensorFlow without the lines that its libraries print at startup."""

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

from t2t.registry.plugins import Plugin, load_plugins

_STARTING = re.compile(r"[IWE]\d{4} |WARNING: All log messages before absl|To enable the following instructions|\s*$")
"""Lines that TensorFlow prints before its log level can be set."""

_REDIRECTING = threading.RLock()
"""Held while stderr is redirected."""


def import_quietly(module: str) -> ModuleType:
    """Imports a module that imports TensorFlow; see `quietly`."""
    if module in sys.modules:
        return sys.modules[module]
    with quietly():
        return importlib.import_module(module)


def load_plugins_quietly(usr_dir: str | None) -> list[Plugin]:
    """Calls `load_plugins` within `quietly`, as plug-ins may import TensorFlow."""
    with quietly():
        return load_plugins(usr_dir)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Drops the start-up lines of TensorFlow's libraries; other output is printed when the block ends.

    Sets TF_CPP_MIN_LOG_LEVEL unless the user has. Does nothing once TensorFlow has been imported.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    # Without a GPU, TensorFlow reports that as an error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if glob.glob("/dev/nvidia*") else "3")
    with _REDIRECTING, _scratch() as printed, _redirected(printed):
        yield


@contextlib.contextmanager
def _redirected(printed: BinaryIO) -> Iterator[None]:
    """Redirects stderr, also of C++ libraries, to a file, and shows the lines to keep at the end of the block."""
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
    """Returns a temporary file, in memory if possible, so that a full disk does not stop a command."""
    return os.fdopen(os.memfd_create("printed"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()
