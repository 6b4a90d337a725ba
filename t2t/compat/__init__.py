"""Names of other programs, for plug-ins that were written for them."""

from typing import Any


def __getattr__(name: str) -> Any:
    """Returns TensorFlow as plug-ins of Tensor2Tensor see it: `from t2t.compat import tensorflow as tf`."""
    if name != "tensorflow":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from t2t.compat.tensor2tensor.tensorflow1 import TENSORFLOW

    return TENSORFLOW
