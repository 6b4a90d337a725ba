"""Helpers for generated data: reads pairs back as text, and classifies numbers."""

import numpy as np

from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.reader import SplitReader
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


class Parity(Text2Class):
    """Whether a number, in digits, is even or odd."""

    name = "parity"
    vocabulary = tuple("0123456789")
    class_labels = ("even", "odd")
    numbers = range(50)

    def generate_samples(self, split, source):
        for number in self.numbers:
            yield {"inputs": " ".join(str(number)), "targets": self.class_labels[number % 2]}
