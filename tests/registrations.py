"""Temporary registrations for tests."""

import contextlib


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
