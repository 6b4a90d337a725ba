"""Sequence models learn to copy and to reverse what they have not seen, as their tiny sets train them."""

import pytest

from t2t.registry import HPARAMS, MODELS
from tests.learning import sequence_accuracy, trained


@pytest.mark.slow
@pytest.mark.parametrize("task", ["copy", "reverse"])
@pytest.mark.parametrize(("model", "hparams_set"), [("conv_s2s", "conv_s2s_tiny")])
def test_learns(model, hparams_set, task):
    learned = trained(MODELS.get(model), HPARAMS.get(hparams_set)(), task)
    assert sequence_accuracy(learned, task) >= 0.99
