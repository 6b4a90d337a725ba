"""Files of PyTorch, and imported vocabularies."""

import argparse
import fractions
import functools
import io
import pickle
import zipfile

import numpy as np
import pytest

from t2t.formats.fairseq import read_settings
from t2t.formats.foreign_vocabulary import ForeignVocabulary
from t2t.formats.pytorch import parse_checkpoint, parse_pytorch, parse_pytorch_values, tensors_of
from tests.errors import refused
from tests.reference.marian import pytorch_file

STATE = {
    "table": np.arange(12, dtype=np.float32).reshape(3, 4),
    "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "half": np.array([1.5, -2.0], np.float16),
    "count": np.array(7, np.int64),
    "empty": np.zeros((0, 3), np.float32),
}


@pytest.fixture(params=[False, True], ids=["zip", "stream"])
def file_of(request, monkeypatch):
    """Returns a function that gives the file of a state, in each of the two formats."""
    return functools.partial(pytorch_file, monkeypatch=monkeypatch, stream=request.param)


def test_tensors_come_as_they_were_saved_and_every_cut_is_noticed(file_of):
    content = file_of(STATE)
    found = parse_pytorch(content)
    assert found.keys() == STATE.keys()
    for name, array in STATE.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    for length in range(0, len(content), 7):
        with pytest.raises(ValueError):
            parse_pytorch(content[:length])


class Malicious:
    """Opens a file for writing when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_that_calls_something_is_refused_and_calls_nothing(file_of, tmp_path):
    malicious = Malicious(tmp_path / "made")
    for parse, content, named in (
        (parse_pytorch, file_of({**STATE, "other": malicious}), ["io.open"]),
        (parse_pytorch, pickle.dumps(malicious), ["nothing"]),
        (parse_pytorch_values, file_of({"opt": {"a": malicious}}), ["io.open"]),
    ):
        with refused(*named, by=ValueError):
            parse(content)
        assert not (tmp_path / "made").exists()


def test_values_come_as_plain_ones(file_of):
    settings = argparse.Namespace(heads=8, dropout=[0.1], name="a", seed=None)
    state = {"model": {"table": STATE["table"]}, "opt": settings, "vocab": {"src": ["a", "b"]}, "betas": (0.9, 0.98)}
    found = parse_pytorch_values(file_of(state))
    np.testing.assert_array_equal(found.pop("model").pop("table"), STATE["table"])
    assert found == {
        "opt": {"heads": 8, "dropout": [0.1], "name": "a", "seed": None},
        "vocab": {"src": ["a", "b"]},
        "betas": [0.9, 0.98],
    }
    with refused("argparse.Namespace", by=ValueError):
        parse_pytorch(file_of({"opt": settings}))


class Short(np.ndarray):
    """Claims more rows than it has numbers."""

    def tobytes(self, order="C"):
        return super().tobytes(order)[:-4]


class Repeated(np.ndarray):
    """Is stored as a single number, which all of its elements equal."""

    def tobytes(self, order="C"):
        return b"\0\0\0\0"


def parse_fairseq(content):
    return {"args": read_settings(parse_checkpoint(content, ("argparse",)), "model.pt")}


def endless():
    inner = argparse.Namespace()
    inner.own = inner
    return inner


@pytest.mark.parametrize(
    ("parse", "state", "named"),
    [
        (parse_pytorch_values, {"lr": fractions.Fraction(1, 2)}, ["fractions.Fraction"]),
        (parse_pytorch_values, {"opt": argparse.Namespace}, ["type"]),
        (parse_pytorch_values, {"opt": endless()}, ["itself"]),
        (parse_pytorch, {**STATE, "epoch": 3}, ["'epoch'", "state_dict"]),
        (parse_pytorch, {"long": np.arange(12, dtype=np.float32).reshape(3, 4).view(Short)}, [12, 11]),
        (parse_pytorch, {"large": np.broadcast_to(np.float32(0), (10**6, 10**6)).view(Repeated)}, ["(1000000,", 1]),
    ],
)
def test_what_is_no_data_or_damaged_is_refused(monkeypatch, parse, state, named):
    with refused(*named, by=ValueError):
        parse(pytorch_file(state, monkeypatch))


@pytest.mark.parametrize("parse", [parse_pytorch_values, parse_fairseq])
def test_lists_that_share_lists_are_not_copied_without_end(parse, monkeypatch):
    def settings(levels):
        values = functools.reduce(lambda inner, _: [inner] * 3, range(levels), ["a"])
        return pytorch_file({"model": STATE, "args": argparse.Namespace(values=values)}, monkeypatch)

    assert parse(settings(2))["args"]["values"] == [[["a"]] * 3] * 3
    with refused(by=ValueError):
        parse(settings(60))


def packed(method=zipfile.ZIP_STORED, **files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, values in files.items():
            archive.writestr(f"archive/{name.replace('_', '.')}", values)
    return content.getvalue()


def overlapping():
    """An archive of which two files are the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}, 2).ljust(1000))
        twice = zipfile.ZipInfo("archive/data/0")
        for name in ("file_size", "compress_size", "CRC", "header_offset"):
            setattr(twice, name, getattr(archive.infolist()[0], name))
        archive.filelist.append(twice)
    return content.getvalue()


NOTHING = pickle.dumps({}, 2)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (packed(zipfile.ZIP_DEFLATED, data_pkl=NOTHING), ["archive/data.pkl"]),
        (packed(zipfile.ZIP_DEFLATED, data_pkl=NOTHING, byteorder=b"little"), ["archive/byteorder"]),
        (packed(zipfile.ZIP_DEFLATED, data_pkl=pickle.dumps({"a": "x" * 9999}, 2)), []),
        (overlapping(), []),
    ],
    ids=["data.pkl", "byteorder", "long", "overlapping"],
)
def test_an_archive_that_unpacks_to_more_than_its_size_is_refused(content, named):
    assert parse_pytorch(packed(data_pkl=NOTHING, byteorder=b"little")) == {}
    with refused(*named, by=ValueError):
        parse_pytorch(content)


def test_tensors_with_the_same_numbers_share_memory(monkeypatch):
    first, second = (tensors_of(dict(a=tensor, b=tensor)) for tensor in stored(monkeypatch))
    assert np.shares_memory(first["a"], first["b"])
    assert not np.shares_memory(first["a"], second["a"])


def stored(monkeypatch):
    state = {"a": STATE["table"], "b": STATE["half"]}
    return parse_checkpoint(pytorch_file(state, monkeypatch)).values()


def test_special_ids_are_the_first_of_equal_tokens_and_come_first():
    vocabulary = ForeignVocabulary.of(["a", "<unk>", "</s>", "b", "</s>", "<unk>"], None, "</s>", "<unk>", "vocab.txt")
    assert vocabulary.order.tolist()[:3] == [-1, 2, 1]
    assert vocabulary.order.tolist()[3:] == [0, 3, 4, 5]
    assert not vocabulary.has_padding


def test_an_id_that_the_model_lacks_has_a_row_of_zeros_and_almost_no_probability():
    vocabulary = ForeignVocabulary.of(["<unk>", "</s>", "a"], None, "</s>", "<unk>", "vocab.txt")
    assert vocabulary.rows(np.arange(6, dtype=np.float32).reshape(3, 2), "table").tolist() == [
        [0, 0], [2, 3], [0, 1], [4, 5],
    ]  # fmt: skip
    assert vocabulary.biases(np.float32([0.5, -1.0, 2.0])).tolist() == [-101.0, -1.0, 0.5, 2.0]
