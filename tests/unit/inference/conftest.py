"""Translators that many tests read and none changes, so that each search is compiled once.

TensorFlow is imported by the tests that ask for one; those of files run without it.
"""

import pytest


@pytest.fixture(scope="session")
def letters_translator():
    """One layer, whose outputs seldom end."""
    from tests.letters import letters, translator_of

    return translator_of(letters(), num_hidden_layers=1)


@pytest.fixture(scope="session")
def letters_fast(letters_translator, tmp_path_factory):
    """`letters_translator` on CTranslate2, with 40 positions."""
    from tests.letters import fast_of

    return fast_of(letters_translator, tmp_path_factory.mktemp("fast"))


@pytest.fixture(scope="session")
def ending_translator():
    """One layer, some of whose outputs end."""
    from tests.letters import Letters, build

    return build(Letters)


@pytest.fixture(scope="session")
def continuer():
    """A language model of one layer."""
    from tests.letters import LettersAlone, build

    return build(LettersAlone)
