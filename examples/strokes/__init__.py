"""Strokes of a pen to the directions that they go. Load it with --t2t_usr_dir=examples/strokes.

    inputs   (3, 2) numbers, how far each stroke goes to the right and up: 0.1 0.9, 1.2 -0.1, -0.8 0
    targets  up right left

Made up by the generator below; no licence needed.
"""

import numpy as np

from t2t import TRAIN, Problem, register_problem
from t2t.features import Text, Vector

DIRECTIONS = {"up": (0, 1), "down": (0, -1), "left": (-1, 0), "right": (1, 0)}


@register_problem
class MyStrokes(Problem):
    """Strokes of a pen to the directions that they go."""

    features = {"inputs": Vector(2), "targets": Text(words=tuple(DIRECTIONS))}
    metrics = ("accuracy_per_sequence", "accuracy")

    def generate_samples(self, split, context):
        """Yields 1,000 rows of strokes for training and 50 for evaluation."""
        for _ in range(1000 if split == TRAIN else 50):
            names = context.rng.choices(list(DIRECTIONS), k=context.rng.randint(1, 4))
            strokes = [[one + context.rng.gauss(0, 0.1) for one in DIRECTIONS[name]] for name in names]
            yield {"inputs": np.array(strokes), "targets": " ".join(names)}
