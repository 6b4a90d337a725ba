"""A kind of feature, a colour as three numbers, and a made-up problem with it: inputs #c02b13, targets red."""

import dataclasses
import re

import numpy as np

from t2t import TRAIN, Problem, register_feature, register_problem
from t2t.features import Text, Vector

NAMES = ("red", "green", "blue")


@register_feature  # the name is the class's in snake case: my_colour
@dataclasses.dataclass(frozen=True)
class MyColour(Vector):
    """A colour such as #ff8800, one vector of red, green and blue between 0 and 1."""

    channels: int = 3

    def fault(self, value, name, encoder=None):
        """Returns what is wrong with the value of a sample, or an empty string."""
        return "" if re.fullmatch("#[0-9a-f]{6}", str(value)) else f"has {value!r} for {name!r}, which is no #rrggbb"

    def encode(self, values, encoder=None):
        """Returns a (1, 3) array for each colour."""
        return [np.array([list(bytes.fromhex(value[1:]))], np.float32) / 255 for value in values]


@register_problem
class MyStrongest(Problem):
    """The strongest of red, green and blue in a colour."""

    features = {"inputs": "my_colour", "targets": Text(words=NAMES)}
    metrics = ("accuracy_per_sequence", "accuracy")

    def generate_samples(self, split, context):
        """Yields 1,000 colours for training and 50 for evaluation."""
        for levels in (context.rng.sample(range(256), 3) for _ in range(1000 if split == TRAIN else 50)):
            yield {"inputs": f"#{bytes(levels).hex()}", "targets": NAMES[levels.index(max(levels))]}
