"""Generated data of pairs, read back as text."""

import numpy as np

from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.reader import SplitReader


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
