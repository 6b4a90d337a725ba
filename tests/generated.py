"""Helpers for generated data: reads pairs back as text, and classifies numbers."""

import dataclasses

import numpy as np

from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.reading.reader import SplitReader
from t2t.problems.preprocessors import Preprocessor
from t2t.problems.text_problems import Text2Class


def texts(folder, split="train"):
    """Returns the pairs of a split in a folder of generated data."""
    manifest = read_manifest(folder)
    encoders = load_encoders(folder, manifest)
    reader = SplitReader(folder, manifest, split)
    columns = []
    for name in ("inputs", "targets"):
        values, lengths = reader.read(np.arange(len(reader)), name)
        columns.append([encoders[name].decode(ids) for ids in np.split(values, np.cumsum(lengths)[:-1])])
    return list(zip(*columns, strict=True))


def contents(folder):
    """Returns the files of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def examples_of(reader, *features):
    """Returns the examples of a split in order, as tuples of the lists of ids of some features."""
    columns = []
    for name in features or ("inputs", "targets"):
        values, lengths = reader.read(np.arange(len(reader)), name)
        columns.append([part.tolist() for part in np.split(values, np.cumsum(lengths)[:-1])])
    return list(zip(*columns, strict=True))


def rows_of(batch):
    """Returns the examples of a batch as tuples of lists without their padding; empty rows are left out."""
    rows = zip(*(batch[name] for name in sorted(batch)), strict=True)
    return [example for row in rows if any(example := tuple(ids[ids > 0].tolist() for ids in row))]


def same_arrays(one, other):
    """Returns whether two batches have the same features, with the same values of the same types."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]) for name in one
    )


def epoch_of(batches, number=0):
    """Returns the training batches of one epoch."""
    batches.seek(batches.state() | {"epoch": number, "window": 0, "batch": 0})
    found = []
    while batches.state()["epoch"] == number:
        found.append(next(batches)[0])
    return found


def check_resuming(make, last, every=1):
    """Checks that every `every`-th state leads to the batches that an uninterrupted sequence has after it.

    Args:
        make: makes training batches, given a state or none.
        last: called with a state; whether the sequence has ended.
        every: see above.

    Returns:
        The states in their order.
    """
    whole = make()
    states, sequence = [whole.state()], []
    while not last(states[-1]):
        batch, state = next(whole)
        sequence.append(batch)
        states.append(state)
    for position in range(0, len(sequence), every):
        resumed = make(state=states[position])
        assert resumed.state() == states[position]
        assert all(same_arrays(next(resumed)[0], batch) for batch in sequence[position : position + 3])
    return states


@dataclasses.dataclass(frozen=True, kw_only=True)
class Repeated(Preprocessor):
    """Inserts the first id 0 to `most` - 1 more times: changes lengths."""

    most: int = 6
    changes_lengths = True

    def __call__(self, example, rng):
        return {name: np.insert(ids, 0, [ids[0]] * rng.integers(self.most)) for name, ids in example.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Other(Preprocessor):
    """Replaces ids by random digits: keeps lengths."""

    def __call__(self, example, rng):
        return {name: np.append(rng.integers(3, 13, len(ids) - 1), 1).astype(np.int32) for name, ids in example.items()}


class Parity(Text2Class):
    """Whether a number, in digits, is even or odd."""

    name = "parity"
    vocabulary = tuple("0123456789")
    class_labels = ("even", "odd")
    numbers = range(50)

    def generate_samples(self, split, source):
        for number in self.numbers:
            yield {"inputs": " ".join(str(number)), "targets": self.class_labels[number % 2]}
