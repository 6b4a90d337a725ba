"""Which ids of inputs are words, by hand."""

import numpy as np
import pytest
from keras import ops

from t2t.layers.masks import words_keep


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ([5, 6, 1, 0, 0], [1, 1, 0, 0, 0]),
        ([5, 6, 7], [1, 1, 1]),
        ([1, 0, 0], [1, 0, 0]),  # an empty one
        ([5, 1, 6, 7, 1, 1, 8, 1, 0], [1, 0, 1, 1, 0, 1, 1, 0, 0]),  # several in a row, the third of them empty
    ],
)
def test_words_are_kept_and_ends_of_empty_sequences(ids, kept):
    found = ops.convert_to_numpy(words_keep(ops.convert_to_tensor(np.array([ids], np.int32))))
    assert found.tolist() == [[bool(keep) for keep in kept]]
