"""Translators that many tests read and none changes, so that each search is compiled once."""

import pytest

from tests.letters import Letters, LettersAlone, build, fast_of, letters, translator_of


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


@pytest.fixture(scope="session")
def letters_fast(letters_translator, tmp_path_factory):
    """`letters_translator` on CTranslate2, with 40 positions."""
    return fast_of(letters_translator, tmp_path_factory.mktemp("fast"))
