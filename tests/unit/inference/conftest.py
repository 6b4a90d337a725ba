"""Translators that many tests read and none changes, so that each search is compiled once.

Models are imported by those who ask for one: tests of files run without them.
"""

import importlib

import pytest


def _letters():
    return importlib.import_module("tests.letters")


@pytest.fixture(scope="session")
def letters_translator():
    """Two layers, whose outputs seldom end."""
    return _letters().translator_of(_letters().letters())


@pytest.fixture(scope="session")
def ending_translator():
    """One layer, some of whose outputs end."""
    return _letters().build(_letters().Letters)


@pytest.fixture(scope="session")
def continuer():
    """A language model."""
    return _letters().build(_letters().LettersAlone)


@pytest.fixture(scope="session")
def letters_fast(letters_translator, tmp_path_factory):
    """`letters_translator` on CTranslate2, with 40 positions."""
    return _letters().fast_of(letters_translator, tmp_path_factory.mktemp("fast"))
