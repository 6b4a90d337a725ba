"""Translators that many tests read and none changes, so that each search is compiled once."""

import pytest

from tests.letters import Letters, LettersAlone, build, letters, translator_of


@pytest.fixture(scope="session")
def letters_translator():
    """Two layers, whose outputs seldom end."""
    return translator_of(letters())


@pytest.fixture(scope="session")
def ending_translator():
    """One layer, some of whose outputs end."""
    return build(Letters)


@pytest.fixture(scope="session")
def continuer():
    """A language model."""
    return build(LettersAlone)
