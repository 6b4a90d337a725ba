"""The model of a case, which tests of the case share; none of them changes it."""

import pytest

from tests.builders import randomise
from tests.conformance.model_cases import features_of


@pytest.fixture(scope="module")
def case(request):
    return request.param


@pytest.fixture(scope="module")
def model(case):
    model_class, hparams, spec = case
    # Drops all tokens, but only with a seed: the largest rate that 16 random bits have.
    return randomise(model_class(hparams.replace(symbol_dropout=1 - 2**-16), spec), seed=3)


@pytest.fixture(scope="module")
def features(model):
    """A batch with more padding than necessary."""
    return features_of(model, wide=True)


@pytest.fixture(scope="module")
def logits(model, features):
    return model(features)
