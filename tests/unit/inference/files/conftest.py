"""A translator without a model, for the tests of files."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.reverser import Reverser


@pytest.fixture
def reverser():
    return Reverser()


@pytest.fixture
def reverser_class():
    return Reverser


@pytest.fixture
def reading_class(reverser_class):
    """A translator of files, whose bytes are code points."""

    class Reading(reverser_class):
        reads_text = False
        problem = SimpleNamespace(read_input=lambda path: np.frombuffer(path.read_bytes(), np.uint8), constraint=None)

    return Reading
