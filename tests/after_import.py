"""Setting up a library at the moment somebody imports it, so that tests which do not need it do not pay for it."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType


def after_import(name: str, set_up: Callable[[ModuleType], None]) -> None:
    """Calls `set_up(module)` as soon as the module has been imported; at once if it has been already."""
    if name in sys.modules:
        set_up(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, set_up))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module by the other finders, once, and has its loader set it up."""

    def __init__(self, name: str, set_up: Callable[[ModuleType], None]):
        self._name, self._set_up = name, set_up

    def find_spec(self, name, path, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._set_up)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads a module by its own loader and sets it up."""

    def __init__(self, loader, set_up: Callable[[ModuleType], None]):
        self._loader, self._set_up = loader, set_up

    def create_module(self, spec: importlib.machinery.ModuleSpec):
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._set_up(module)
