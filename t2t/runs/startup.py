"""Imports Keras and its backend without the lines that their libraries print at startup."""

import contextlib
import gc
import glob
import importlib.util
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

from t2t.errors import UserError
from t2t.files.paths import StrPath
from t2t.registry.plugins import Plugin, load_plugins

BACKENDS = ("tensorflow", "jax")
"""Backends of Keras that models run on, by the names of their packages."""

_STARTING = re.compile(r"[IWE]\d{4} |WARNING: All log messages before absl|To enable the following instructions|\s*$")
"""Lines that TensorFlow prints before its log level can be set."""

_REDIRECTING = threading.RLock()
"""Held while stderr is redirected."""

_unneeded: set[str] = set()
"""Packages that Keras imports if they are there, and that it is to do without."""
_freezes = False
"""Whether the garbage collector leaves imports alone."""


def start_command() -> None:
    """Lets Keras start as a command needs it.

    It does without matplotlib, a second, to draw what no command shows; who needs that imports it as usual. The garbage
    collector leaves alone what Keras imports, which stays until the process ends.
    """
    global _freezes
    _freezes = True
    _unneeded.add("matplotlib")


def prepare_framework() -> None:
    """Imports Keras with its backend; to call before the first import of a module that imports them. See `quietly`.

    Raises:
        UserError: see `check_keras_backend`.
    """
    if "keras" in sys.modules:
        return
    check_keras_backend()
    refusing, collects = _Refusing(_unneeded), gc.isenabled()
    sys.meta_path.insert(0, refusing)
    gc.disable()  # otherwise a fifth of the time, as all that is there is looked through again and again
    try:
        with quietly():
            import keras  # noqa: F401
        if _freezes:
            gc.freeze()
    finally:
        sys.meta_path.remove(refusing)
        if collects:
            gc.enable()


class _Refusing:
    """Import hook with which imports of some packages fail in the thread that made it; a server's others go on."""

    def __init__(self, packages: Collection[str]):
        self._packages, self._thread = packages, threading.get_ident()

    def find_spec(self, name, path=None, target=None):
        if name in self._packages and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is left out", name=name)


def check_keras_backend() -> None:
    """Raises UserError if Keras is set to a backend that models do not run on, or that is not installed."""
    if "keras" in sys.modules:
        return
    name, where = os.environ.get("KERAS_BACKEND"), "KERAS_BACKEND"
    if not name:
        path = Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser() / "keras.json"
        with contextlib.suppress(OSError, ValueError, AttributeError):
            name, where = json.loads(path.read_text(encoding="utf-8")).get("backend"), f"backend in {path}"
    if name and name not in BACKENDS:
        raise UserError(f"{where}: {name}: models run on {' or '.join(BACKENDS)}", "set KERAS_BACKEND to one of them")
    if name == "jax" and importlib.util.find_spec("jax") is None:
        raise UserError(
            f"{where}: jax is not installed", "pip install 't2t-keras[jax]', or set KERAS_BACKEND=tensorflow"
        )


def environment_of_child(**changes: str) -> dict[str, str]:
    """Returns the environment of a Python process that imports this package, also from a checkout not installed."""
    folder = str(Path(__file__).parents[2])
    path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **changes}


def load_plugins_quietly(usr_dir: StrPath | None) -> list[Plugin]:
    """Calls `load_plugins` within `quietly`, as plug-ins may import TensorFlow."""
    with quietly():
        return load_plugins(os.fspath(usr_dir or ""))


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
    # In memory if possible, so that a full disk does not stop a command.
    memory = os.fdopen(os.memfd_create("printed"), "w+b") if hasattr(os, "memfd_create") else None
    with _REDIRECTING, memory or tempfile.TemporaryFile() as printed:
        try:
            saved = os.dup(2)  # C++ libraries write there, too
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
