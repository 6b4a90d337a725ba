"""Initial weights in tests of models are the same in every run and in every order of tests."""

import keras
import pytest


@pytest.fixture(autouse=True)
def _seeded():
    keras.utils.set_random_seed(1)
