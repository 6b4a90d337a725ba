"""Ids of other toolkits in our order, by hand."""

import numpy as np

from t2t.importing.vocabulary import ForeignVocabulary


def test_special_ids_are_the_first_of_equal_tokens_and_come_first():
    vocabulary = ForeignVocabulary.of(["a", "<unk>", "</s>", "b", "</s>", "<unk>"], None, "</s>", "<unk>", "vocab.txt")
    assert vocabulary.order.tolist()[:3] == [-1, 2, 1]
    assert vocabulary.order.tolist()[3:] == [0, 3, 4, 5]
    assert not vocabulary.has_padding


def test_an_id_that_the_model_lacks_has_a_row_of_zeros_and_almost_no_probability():
    vocabulary = ForeignVocabulary.of(["<unk>", "</s>", "a"], None, "</s>", "<unk>", "vocab.txt")
    assert vocabulary.rows(np.arange(6, dtype=np.float32).reshape(3, 2), "table").tolist() == [
        [0, 0], [2, 3], [0, 1], [4, 5],
    ]  # fmt: skip
    assert vocabulary.biases(np.float32([0.5, -1.0, 2.0])).tolist() == [-101.0, -1.0, 0.5, 2.0]
