"""A translator without a model, for the tests of files."""

import pytest

from tests.reverser import Reverser


@pytest.fixture
def reverser():
    return Reverser()


@pytest.fixture
def reverser_class():
    return Reverser
