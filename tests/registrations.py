"""Names that are registered for the length of a test."""

import contextlib


@contextlib.contextmanager
def forgotten(*registries):
    """Forgets, at the end of the `with` block, every name that was registered in it."""
    before = [set(registry.names()) for registry in registries]
    try:
        yield
    finally:
        for registry, names in zip(registries, before, strict=True):
            registry.forget(set(registry.names()) - names)


@contextlib.contextmanager
def registered(registry, name, value):
    """Registers a value, frozen or not, for the length of the `with` block."""
    with forgotten(registry):
        with registry.open():
            registry.register(name)(value)
        yield
