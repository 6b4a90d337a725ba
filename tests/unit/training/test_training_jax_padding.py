"""Batches that JAX trains on."""

import numpy as np

from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.training.jax.padding import Padding
from tests.builders import batch, tokens_spec


def test_batches_are_padded_to_few_shapes_where_padding_is_no_data():
    padding = Padding(tokens_spec(), longest=20)
    stacked = padding.stack([batch(sources=(5, 3, 7), targets=(4, 6, 2)), batch(sources=(17,), targets=(18,))])
    assert {name: array.shape for name, array in stacked.items()} == {"inputs": (2, 8, 20), "targets": (2, 8, 20)}
    np.testing.assert_array_equal(stacked["inputs"][1, 0, :17], batch(sources=(17,), targets=(18,))["inputs"][0])
    assert not stacked["inputs"][1, 1:].any()
    widths = {padding.stack([batch(sources=(1,), targets=(length,))])["targets"].shape[-1] for length in range(1, 21)}
    assert widths == {8, 16, 20}  # not beyond the longest that the model takes


def test_images_are_left_as_they_are_and_of_unequal_numbers_there_is_no_stack():
    image, label = (
        FeatureSpec(kind=FeatureKind.IMAGE, shape=(2, 2, 1)),
        FeatureSpec(kind=FeatureKind.LABEL, vocab_size=3),
    )
    padding = Padding(ProblemSpec(name="images", features={"inputs": image, "targets": label}), longest=None)

    def pictures(count):
        return {"inputs": np.ones((count, 2, 2, 1), np.uint8), "targets": np.ones(count, np.int32)}

    assert padding.stack([pictures(3), pictures(3)])["inputs"].shape == (2, 3, 2, 2, 1)
    assert padding.stack([pictures(3), pictures(2)]) is None
