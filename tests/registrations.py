"""Temporary registrations for tests."""

import contextlib
import sys
from pathlib import Path


@contextlib.contextmanager
def forgotten(*registries):
    """Removes, at the end of the `with` block, all names that were registered in it."""
    before = [set(registry.names()) for registry in registries]
    try:
        yield
    finally:
        for registry, names in zip(registries, before, strict=True):
            registry.forget(set(registry.names()) - names)


@contextlib.contextmanager
def registered(registry, name, value):
    """Registers a value for the duration of the `with` block, even if the registry is frozen."""
    with forgotten(registry):
        with registry.open():
            registry.register(name)(value)
        yield


@contextlib.contextmanager
def plugins_unloaded():
    """Unloads, at the end of the `with` block, the folders of plug-ins that were loaded in it.

    What a test's command has loaded would be found by the tests that the same process runs later.
    """
    before = _usr_dirs()
    yield
    for folder in _usr_dirs() - before:
        sys.modules["t2t.registry.plugins"].unload_usr_dir(folder)


def _usr_dirs():
    plugins = sys.modules.get("t2t.registry.plugins")  # not imported for tests that need none
    return {Path(value) for name, value in plugins.LOADED if name == "usr_dir"} if plugins else set()
