"""Tests on JAX, in a separate process without TensorFlow, since Keras chooses its backend when it is imported.

`tests/integration/test_jax.py` starts the process, with TensorFlow's results for the cases in `*_cases.py`.
"""

import importlib.machinery
import os
import sys
from pathlib import Path

import numpy as np
import pytest


class _Refused:
    """Import hook that makes imports of TensorFlow fail, while `find_spec` still finds it."""

    def find_spec(self, name, path=None, target=None):
        if name in ("tensorflow", "tensorflow_text", "tensorflow_datasets"):
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)

    def exec_module(self, module):
        raise NotImplementedError


sys.meta_path.insert(0, _Refused())

import jax  # noqa: E402

# The number of devices can be set only before JAX starts, that is, before the first operation of any test.
jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_cpu_enable_async_dispatch", False)  # see t2t.backends.jax.devices
# Optimizing programs costs more than running them a few times.
jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def check_same():
    """Compares arrays with TensorFlow's results for a case: exactly for integers and bools, else within a tolerance."""

    def check(name, found):
        with np.load(Path(os.environ["T2T_EXPECTED"], f"{name}.npz")) as expected:
            assert sorted(found) == sorted(expected.files)
            for key, value in found.items():
                assert value.dtype == expected[key].dtype, key
                compare = np.testing.assert_array_equal if value.dtype.kind in "iub" else np.testing.assert_allclose
                options = {} if value.dtype.kind in "iub" else {"rtol": 1e-4, "atol": 1e-5}
                compare(value, expected[key], err_msg=key, **options)

    return check
