"""Makes `tensor2tensor.*` importable, and TensorFlow 1's names for plug-ins that import it."""

import functools
import importlib
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from t2t.compat.tensor2tensor.placeholders import module_with, placeholder
from t2t.registry import usr_package

THEIRS = "tensor2tensor"
_IMPORTS_IT = re.compile(rf"^\s*(?:from|import)\s+{THEIRS}\b", re.MULTILINE)
_TENSORFLOW = ("tensorflow", "tensorflow.compat", "tensorflow.compat.v1")
"""Names under which files written for TensorFlow 1 import it."""
_PACKAGES = ("", "data_generators", "layers", "models", "models.research", "utils")
_MODULES = {
    "data_generators.algorithmic": ["algorithmic"],
    "data_generators.audio_encoder": ["image_and_speech"],
    "data_generators.generator_utils": ["generator_utils"],
    "data_generators.image_utils": ["image_and_speech"],
    "data_generators.problem": ["text_problems", "problem"],  # as in the first versions
    "data_generators.speech_recognition": ["image_and_speech"],
    "data_generators.text_encoder": ["text_encoder"],
    "data_generators.text_problems": ["text_problems"],
    "data_generators.tokenizer": ["text_encoder"],
    "data_generators.translate": ["translate"],
    "data_generators.wmt": ["translate"],  # as in the first versions
    "layers.common_hparams": ["model_sets"],
    "layers.modalities": ["names"],
    "models.lstm": ["model_sets"],
    "models.research.universal_transformer": ["model_sets"],
    "models.slicenet": ["model_sets"],
    "models.transformer": ["model_sets"],
    "problems": ["registry"],
    "utils.hparam": ["hparam"],
    "utils.hparams_lib": ["trainer_lib"],
    "utils.metrics": ["names"],
    "utils.registry": ["registry"],
    "utils.trainer_lib": ["trainer_lib"],
    "utils.usr_dir": ["trainer_lib"],
}
"""Module of Tensor2Tensor -> the modules here that have its names."""


def install() -> None:
    """Makes `tensor2tensor` importable in this process; an installed one comes first."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.append(_Finder())
    usr_package.add_stand_in(_stand_in)


class _Finder(MetaPathFinder):
    """Finds modules of Tensor2Tensor here, unless the real one is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != THEIRS or PathFinder.find_spec(THEIRS) is not None:
            return None
        return spec_from_loader(fullname, _Loader(), is_package=True)  # Python imports submodules only from packages


class _Loader(Loader):
    """Makes a module of Tensor2Tensor of the names that are here."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = spec.name.removeprefix(THEIRS).removeprefix(".")
        if name in _PACKAGES:
            return module_with(spec.name, {}, lambda asked: importlib.import_module(f"{spec.name}.{asked}"))
        ours = [importlib.import_module(f"{__package__}.{one}") for one in _MODULES.get(name, ())]
        known = {key: value for one in ours for key, value in vars(one).items() if not key.startswith("__")}
        return module_with(spec.name, known, functools.partial(_other_name, ours, spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete."""


def _other_name(ours: Sequence[ModuleType], module: str, name: str) -> Any:
    """Returns what a module of Tensor2Tensor has besides the names here: made on demand, or a placeholder."""
    for one in ours:
        if hasattr(one, name):
            return getattr(one, name)
    package, _, file = module.rpartition(".")
    if package == f"{THEIRS}.data_generators":
        from t2t.compat.tensor2tensor.known_problems import known_problem

        if (found := known_problem(file, name)) is not None:
            return found
    return placeholder(f"{module}.{name}")


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
