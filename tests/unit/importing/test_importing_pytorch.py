"""Files of PyTorch: tensors are read, and no code in the files is executed."""

import argparse
import fractions
import pickle

import numpy as np
import pytest

from t2t.importing.pytorch import parse_pytorch, parse_pytorch_values
from tests.reference.marian import pytorch_file

STATE = {
    "table": np.arange(12, dtype=np.float32).reshape(3, 4),
    "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "half": np.array([1.5, -2.0], np.float16),
    "count": np.array(7, np.int64),
    "empty": np.zeros((0, 3), np.float32),
}


@pytest.mark.parametrize("stream", [False, True], ids=["zip", "stream"])
def test_tensors_come_as_they_were_saved(monkeypatch, stream):
    found = parse_pytorch(pytorch_file(STATE, monkeypatch, stream=stream))
    assert found.keys() == STATE.keys()
    for name, array in STATE.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("stream", [False, True], ids=["zip", "stream"])
def test_a_pickle_that_calls_something_is_refused_and_calls_nothing(monkeypatch, tmp_path, stream):
    content = pytorch_file({**STATE, "other": Malicious(tmp_path / "made")}, monkeypatch, stream=stream)
    with pytest.raises(ValueError, match=r"it asks for _?io\.open, which no file of tensors needs; nothing of"):
        parse_pytorch(content)
    assert not (tmp_path / "made").exists()
    with pytest.raises(ValueError, match=r"nothing of it was executed"):
        parse_pytorch(pickle.dumps(Malicious(tmp_path / "made")))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("stream", [False, True], ids=["zip", "stream"])
def test_values_come_as_plain_ones(monkeypatch, stream):
    settings = argparse.Namespace(heads=8, dropout=[0.1], name="a", seed=None)
    state = {"model": {"table": STATE["table"]}, "opt": settings, "vocab": {"src": ["a", "b"]}, "betas": (0.9, 0.98)}
    found = parse_pytorch_values(pytorch_file(state, monkeypatch, stream=stream))
    np.testing.assert_array_equal(found.pop("model").pop("table"), STATE["table"])
    assert found == {
        "opt": {"heads": 8, "dropout": [0.1], "name": "a", "seed": None},
        "vocab": {"src": ["a", "b"]},
        "betas": [0.9, 0.98],
    }
    with pytest.raises(ValueError, match=r"it asks for argparse\.Namespace, which no file of tensors needs"):
        parse_pytorch(pytorch_file({"opt": settings}, monkeypatch, stream=stream))


def test_values_that_call_something_or_are_no_data_are_refused(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"it asks for _?io\.open, which no file of tensors needs; nothing of"):
        parse_pytorch_values(pytorch_file({"opt": {"a": Malicious(tmp_path / "made")}}, monkeypatch))
    assert not (tmp_path / "made").exists()
    with pytest.raises(ValueError, match=r"it asks for fractions\.Fraction, which no file"):
        parse_pytorch_values(pytorch_file({"lr": fractions.Fraction(1, 2)}, monkeypatch))
    with pytest.raises(ValueError, match="it holds a type, which is no data"):
        parse_pytorch_values(pytorch_file({"opt": argparse.Namespace}, monkeypatch))
    inner = argparse.Namespace()
    inner.own = inner
    with pytest.raises(ValueError, match="it holds itself; it is damaged"):
        parse_pytorch_values(pytorch_file({"opt": inner}, monkeypatch))


def test_entries_that_are_no_tensors_are_named(monkeypatch):
    with pytest.raises(ValueError, match=r"entry 'epoch' is no tensor; save the model's state_dict alone"):
        parse_pytorch(pytorch_file({**STATE, "epoch": 3}, monkeypatch))


@pytest.mark.parametrize("stream", [False, True], ids=["zip", "stream"])
def test_every_cut_is_noticed(monkeypatch, stream):
    content = pytorch_file(STATE, monkeypatch, stream=stream)
    for length in range(0, len(content), 7):
        with pytest.raises(ValueError):
            parse_pytorch(content[:length])


def test_a_view_beyond_its_numbers_is_refused(monkeypatch):
    class Short(np.ndarray):
        """Claims more rows than it has numbers."""

        def tobytes(self, order="C"):
            return super().tobytes(order)[:-4]

    long = np.arange(12, dtype=np.float32).reshape(3, 4).view(Short)
    with pytest.raises(ValueError, match=r"a tensor ends at number 12 of 11; it is damaged or cut short"):
        parse_pytorch(pytorch_file({"long": long}, monkeypatch))


def test_a_tensor_of_more_elements_than_its_file_has_numbers_is_refused(monkeypatch):
    class Repeated(np.ndarray):
        """Is stored as a single number, which all of its elements equal."""

        def tobytes(self, order="C"):
            return b"\0\0\0\0"

    large = np.broadcast_to(np.float32(0), (10**6, 10**6)).view(Repeated)
    with pytest.raises(ValueError, match=r"a tensor has shape \(1000000, 1000000\) and 1 numbers; save it contiguous"):
        parse_pytorch(pytorch_file({"large": large}, monkeypatch))
