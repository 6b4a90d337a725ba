"""Batches that JAX trains on."""

import numpy as np

from t2t.backends.jax.padding import Padding, empty_batch, pad_batches
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import batch, tokens_spec


def shape_of(batch):
    return {name: array.shape for name, array in batch.items()}


def test_batches_are_padded_to_few_shapes_where_padding_is_no_data():
    padding = Padding(tokens_spec(), longest=20)
    batches = [batch(sources=(5, 3, 7), targets=(4, 6, 2)), batch(sources=(17,), targets=(18,))]
    stacked = pad_batches(batches, padding.common_shape([*map(shape_of, batches)]))
    assert {name: array.shape for name, array in stacked.items()} == {"inputs": (2, 8, 20), "targets": (2, 8, 20)}
    np.testing.assert_array_equal(stacked["inputs"][1, 0, :17], batch(sources=(17,), targets=(18,))["inputs"][0])
    assert not stacked["inputs"][1, 1:].any()
    shapes = [shape_of(batch(sources=(1,), targets=(length,))) for length in range(1, 21)]
    widths = {padding.common_shape([shape])["targets"][1] for shape in shapes}
    assert widths == {8, 16, 20}  # not beyond the longest that the model takes


def test_positions_of_packed_rows_are_padded_as_their_ids_are():
    padding = Padding(tokens_spec(), longest=120)
    for width in (8, 20, 100, 104):
        packed = batch(sources=(5, 3), targets=(4, 6), widths=(width, width))
        packed |= {f"{name}_positions": ids for name, ids in packed.items()}
        found = padding.common_shape([shape_of(packed)])
        assert len({*found.values()}) == 1, found
        assert [*found] == [*packed]


def test_candidates_are_padded_to_few_lengths():
    padding = Padding(tokens_spec(), longest=20)

    def shape_of_candidates(length):
        sampled = {"candidates": np.ones((3, 5, length), np.int32), "rewards": np.ones((3, 5), np.float32)}
        shape = padding.common_shape([shape_of(batch() | sampled)])
        assert shape["rewards"] == (8, 5)
        return shape["candidates"]

    assert {shape_of_candidates(length) for length in range(1, 21)} == {(8, 5, 8), (8, 5, 16), (8, 5, 20)}


def test_only_the_width_of_ids_is_bounded_by_the_longest_sequence_of_the_model():
    sound = FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=16000)
    text = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=13)
    padding = Padding(ProblemSpec(name="speech", features={"inputs": sound, "targets": text}), longest=20)
    shapes = [padding.common_shape([{"inputs": (4, width), "targets": (4, 18)}]) for width in (1601, 1603)]
    assert shapes[0] == shapes[1]
    assert shapes[0]["targets"] == (8, 20)


def test_images_are_left_as_they_are_and_of_unequal_numbers_there_is_no_common_shape():
    image, label = (
        FeatureSpec(kind=FeatureKind.IMAGE, shape=(2, 2, 1)),
        FeatureSpec(kind=FeatureKind.LABEL, vocab_size=3),
    )
    padding = Padding(ProblemSpec(name="images", features={"inputs": image, "targets": label}), longest=None)

    def pictures(count):
        return {"inputs": np.ones((count, 2, 2, 1), np.uint8), "targets": np.ones(count, np.int32)}

    three, two = shape_of(pictures(3)), shape_of(pictures(2))
    assert padding.common_shape([three, three]) == three
    assert pad_batches([pictures(3), pictures(3)], three)["inputs"].shape == (2, 3, 2, 2, 1)
    assert padding.common_shape([three, two]) is None
    empty = empty_batch(two, like=pictures(3))
    assert not any(array.any() for array in empty.values())
    assert {name: (array.shape, array.dtype) for name, array in empty.items()} == {
        name: (array.shape, array.dtype) for name, array in pictures(2).items()
    }
