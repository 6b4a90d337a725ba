"""Tensor2Tensor's `problem`: the base class and the constants of problems."""

from t2t.compat.tensor2tensor.data_generators.base import (
    DatasetSplit,
    Problem,
    SpaceID,
    TaskID,
    default_model_hparams,
    preprocess_example_common,
)
from t2t.compat.tensor2tensor.data_generators.text_problems import (  # where the first versions had them
    ChoppedTextProblem,
    Text2TextProblem,
    Text2textTmpdir,
)
from t2t.compat.tensor2tensor.placeholders import placeholders_of

__all__ = [
    "ChoppedTextProblem",
    "DatasetSplit",
    "Problem",
    "SpaceID",
    "TaskID",
    "Text2TextProblem",
    "Text2textTmpdir",
    "default_model_hparams",
    "preprocess_example_common",
]

__getattr__ = placeholders_of(__name__)
