"""The generated data of a problem, as Tensor2Tensor's Python code makes and reads it."""

from typing import Any

import numpy as np

from t2t.runs.api import generate_data
from t2t.runs.config import RunConfig
from t2t.runs.data import OpenData, open_data
from t2t.runs.names import get_problem
from t2t.specs import DEFAULT_DATA_DIR


def make_data(name: str, data_dir: str, tmp_dir: str) -> None:
    """Generates the data of a problem."""
    generate_data(name, data_dir, tmp_dir=tmp_dir)


def dataset_of(name: str, mode: str, data_dir: str | None) -> Any:
    """Returns the examples of a split as a dataset of `tf.data`: feature name -> ids or pixels int64, or sound float32.

    Args:
        name: of the problem.
        mode: `train`, `eval` or `infer`, as `tf.estimator.ModeKeys` has them, or the name of a split.
        data_dir: folder of generated data.
    """
    import tensorflow as tf

    data = open_generated(name, data_dir)
    splits = {"eval": "dev", "infer": "dev", "predict": "dev"}
    reader = data.readers[splits.get(mode, mode)]
    features = list(data.problem.spec().features)

    def values(number: int, feature: str) -> np.ndarray:
        one = np.asarray([number])
        found = reader.read(one, feature)[0] if reader.is_sequence(feature) else reader.single(one, feature)[0]
        found = np.asarray(found)  # a label is one number
        return found.astype(np.float32 if found.dtype.kind == "f" else np.int64)

    def examples() -> Any:
        for number in range(len(reader)):
            yield {feature: values(number, feature) for feature in features}

    first = {feature: values(0, feature) for feature in features}
    shape = {name: tf.TensorSpec([None] * one.ndim, one.dtype) for name, one in first.items()}
    # With the methods of TensorFlow 1, such as make_one_shot_iterator.
    return tf.compat.v1.data.Dataset.from_generator(examples, output_signature=shape)


def open_generated(name: str, data_dir: str | None) -> OpenData:
    """Returns the generated data of a problem; raises UserError if there is none."""
    config = RunConfig(problem=name, data_dir=str(data_dir or DEFAULT_DATA_DIR))
    return open_data(config, get_problem(name), verify=False)
