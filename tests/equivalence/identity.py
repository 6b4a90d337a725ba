"""What must be equal bit for bit between runs."""

import numpy as np

PARTS = ("model", "optimizer", "ema")


def assert_same(found, wanted):
    """Arrays by name agree bit for bit."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert np.asarray(found[name]).tobytes() == np.asarray(array).tobytes(), name


def assert_identical(one, other):
    """Checkpoints agree bit for bit: weights, optimizer slots, averages and position in the data."""
    assert (one.step, one.state) == (other.step, other.state)
    for part in PARTS:
        assert_same(getattr(one, part) or {}, getattr(other, part) or {})


def differing(one, other):
    """Returns the names of arrays that differ."""
    return {name for name, value in one.items() if value.tobytes() != other[name].tobytes()}


def arrays_of(model):
    """Returns copies of a model's variables by path."""
    return {v.path: np.asarray(v).copy() for v in model.variables}
