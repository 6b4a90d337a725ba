"""The import system's part: finds `tensor2tensor.*` here, and TensorFlow 1's names for plug-ins that import it."""

import functools
import importlib
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from t2t.compat.tensor2tensor.placeholders import placeholder_module
from t2t.registry import usr_package

THEIRS = "tensor2tensor"
_OURS = __name__.rpartition(".")[0]
_IMPORTS_IT = re.compile(rf"^\s*(?:from|import)\s+{THEIRS}\b", re.MULTILINE)
_TENSORFLOW = ("tensorflow", "tensorflow.compat", "tensorflow.compat.v1")
"""Names under which files written for TensorFlow 1 import it."""
_LATER = {
    "data_generators.wmt": "data_generators.translate",
    "data_generators.audio_encoder": "data_generators.speech_recognition",
}
"""Modules whose names are in another one here; `wmt` of the first versions also was in later ones."""


def install() -> None:
    """Makes `tensor2tensor` importable in this process; an installed one comes first."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())  # the path of a package here would find its files under their names, too
    usr_package.add_stand_in(_stand_in)


class _Finder(MetaPathFinder):
    """Finds modules of Tensor2Tensor here, unless the real one is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, dot, rest = fullname.partition(".")
        if top != THEIRS or PathFinder.find_spec(THEIRS) is not None:
            return None
        return spec_from_loader(fullname, _Renamed(_OURS + dot + _LATER.get(rest, rest)), is_package=True)


class _Renamed(Loader):
    """Gives a module of this project Tensor2Tensor's name; a placeholder where there is none."""

    def __init__(self, ours: str):
        self._ours = ours

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if not _exists(self._ours):
            return placeholder_module(spec.name, functools.partial(_known, spec.name))
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == self._ours:
            module.__spec__ = self._spec  # which the import system has replaced
            module.__dict__.setdefault("__path__", [])  # any module of theirs may be imported from it


def _known(module: str, name: str) -> type | None:
    """Returns a problem of Tensor2Tensor that plug-ins derive theirs from; None for any other name."""
    package, _, file = module.rpartition(".")
    if package != f"{THEIRS}.data_generators":
        return None
    from t2t.compat.tensor2tensor.known_problems import known_problem

    return known_problem(file, name)


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # nor does the package
        return False


def _stand_in(folder: Path, name: str) -> ModuleType | None:
    """Returns what a plug-in in a folder imports as TensorFlow or `os`; None for the module of that name."""
    if name not in (*_TENSORFLOW, "os") or not imports_tensor2tensor(folder):
        return None
    from t2t.compat.tensor2tensor.tensorflow1 import OS, TENSORFLOW

    return OS if name == "os" else TENSORFLOW


def imports_tensor2tensor(folder: Path) -> bool:
    """Returns whether a file in a folder imports Tensor2Tensor, and the real one is not installed."""
    if folder not in _KNOWN:
        sources = (path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.rglob("*.py")))
        _KNOWN[folder] = any(map(_IMPORTS_IT.search, sources))
    return _KNOWN[folder] and PathFinder.find_spec(THEIRS) is None


_KNOWN: dict[Path, bool] = {}
