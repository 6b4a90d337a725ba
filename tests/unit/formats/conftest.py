import functools

import pytest

from tests.unit.formats.imports import Import


@pytest.fixture
def importing(tmp_path):
    """Returns a function that makes an `Import` of a format in the test's folder."""
    return functools.partial(Import, tmp_path)
