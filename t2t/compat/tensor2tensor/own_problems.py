"""Problems as Tensor2Tensor's Python code uses them: by name, with its methods."""

from typing import Any

from t2t.compat.tensor2tensor.data_generators import problem as their_problem
from t2t.compat.tensor2tensor.data_generators import text_encoder
from t2t.registry import PROBLEMS
from t2t.runs.data import OpenData, open_data
from t2t.runs.names import Request, get_problem
from t2t.specs.constants import DEFAULT_DATA_DIR


class OwnProblem(their_problem.Problem):
    """A problem of this project with Tensor2Tensor's methods."""

    def __init__(self, name: str):
        super().__init__()
        self._name = name
        get_problem(name)  # raises UserError for an unknown name

    @property
    def name(self) -> str:
        """The registered name."""
        return self._name

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        """Returns the vocabulary of each text feature of the generated data."""
        found = {}
        for feature, own in _open(self.name, data_dir).problem.encoders.items():
            found[feature] = text_encoder.TextEncoder()
            found[feature].own = own
        return found


def own_problem(name: str) -> Any:
    """Returns the problem of a name: that of the plug-in, or one of this project; raises UserError for any other."""
    theirs = getattr(PROBLEMS.get(name), "theirs", None) if name in PROBLEMS else None
    return theirs() if theirs is not None else OwnProblem(name)


def dataset_of(name: str, mode: str, data_dir: str | None) -> Any:
    """Returns the examples of a split as a `tf.data.Dataset`: feature name -> ids, int64.

    Args:
        name: of the problem.
        mode: `train`, `eval` or `infer`, as `tf.estimator.ModeKeys` has them, or the name of a split.
        data_dir: folder of generated data.
    """
    import numpy as np
    import tensorflow as tf

    data = _open(name, data_dir)
    splits = {"eval": "dev", "infer": "dev", "predict": "dev"}
    reader = data.readers[splits.get(mode, mode)]
    features = list(data.problem.spec().features)

    def values(number: int, feature: str) -> np.ndarray:
        one = np.asarray([number])
        found = reader.read(one, feature)[0] if reader.is_sequence(feature) else reader.single(one, feature)
        return np.asarray(found, np.int64)

    def examples() -> Any:
        for number in range(len(reader)):
            yield {feature: values(number, feature) for feature in features}

    shape = {feature: tf.TensorSpec([None], tf.int64) for feature in features}
    return tf.data.Dataset.from_generator(examples, output_signature=shape)


def _open(name: str, data_dir: str | None) -> OpenData:
    request = Request(problem=name, data_dir=str(data_dir or DEFAULT_DATA_DIR))
    return open_data(request, get_problem(name), verify=False)
