"""Stubs of packages that a peer imports but does not use here."""

import importlib.abc
import importlib.machinery
import sys
import types


class _Nothing(type):
    """Metaclass of stub classes; any attribute of a stub class is a stub class too."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing(name)


def _nothing(name):
    """Returns a stub class that can be subclassed, instantiated, and used as a decorator with or without arguments."""
    return _Nothing(
        name,
        (),
        {
            "__new__": lambda cls, *given, **named: (
                given[0] if len(given) == 1 and callable(given[0]) else object.__new__(cls)
            ),
            "__init__": lambda self, *given, **named: None,
            "__call__": lambda self, *given, **named: given[0] if given else self,
        },
    )


class _Module(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = _nothing(name)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, roots):
        self._roots = roots

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in self._roots:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        return None


def stand_in_for(*roots):
    """Makes imports of these packages succeed; a stub replaces each one that is not installed."""
    sys.meta_path.append(_Finder(frozenset(roots)))  # last, so that installed packages take precedence
