import random

import pytest

from t2t.problems.number_grammar import KINDS


@pytest.fixture(scope="session")
def number_phrases() -> dict[str, str]:
    """English to German, from a large sample of all grammars; a phrase with two translations fails here."""
    rng, found = random.Random(5), {}
    for draw in KINDS.values():
        for _ in range(40_000):
            phrase = draw(rng)
            assert found.setdefault(phrase.english, phrase.german) == phrase.german, phrase
    return found
