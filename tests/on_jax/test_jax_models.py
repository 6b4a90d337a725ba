"""Every registered model learns and decodes on JAX as on TensorFlow."""

import pytest

from tests.on_jax.model_cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_as_tensorflow(name, check_same):
    check_same(name, CASES[name]())
