"""Turns off fsync: it takes most of the tests' time, and their files need not survive a power failure."""

import contextlib
import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def before_calls(monkeypatch):
    """Returns a context in which a function is called before each call of some functions of modules.

    `before(name, *args)` gets the name of the function and its arguments, and may raise an error in place of the call.
    """

    @contextlib.contextmanager
    def watch(before, *functions):
        def wrap(name, real):
            def wrapped(*args, **options):
                before(name, *args)
                return real(*args, **options)

            return wrapped

        with monkeypatch.context() as patch:
            for module, name in functions:
                patch.setattr(module, name, wrap(name, getattr(module, name)))
            yield

    return watch
