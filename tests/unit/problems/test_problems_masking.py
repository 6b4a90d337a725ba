"""Words hidden for masked language models: how many, by what, and which; the variant of problems that hides them."""

import numpy as np
import pytest

from t2t.problems.masking import TokenMasking
from t2t.runs.names import get_problem
from t2t.text.byte import ByteEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.subword_tokens import ESCAPE_CHARACTERS
from t2t.text.token import TokenEncoder
from tests.errors import refused

MASKING = TokenMasking(vocab_size=1000, mask_id=2)


class Draws:
    """A random generator with fixed values."""

    def choice(self, places, size, replace):
        assert (places.tolist(), size, replace) == ([0, 1, 2, 3, 4], 4, False)
        return np.array([4, 0, 2, 3])

    def random(self, size):
        return np.array([0.79, 0.8, 0.89, 0.9])

    def integers(self, low, high, size):
        assert (low, high, size) == (2, 1000, 4)
        return np.array([70, 71, 72, 73])


def test_eighty_ten_and_ten_by_hand():
    """Of five tokens four are chosen, in this order: below 0.8 hidden, below 0.9 exchanged, from there on kept."""
    ids = np.array([10, 11, 12, 13, 14, 1, 0, 0], np.int32)
    inputs, targets = TokenMasking(vocab_size=1000, mask_id=2, rate=0.7)(ids, Draws())
    assert inputs.tolist() == [71, 11, 72, 13, 2, 1, 0, 0]
    assert targets.tolist() == [10, 0, 12, 13, 14, 0, 0, 0]
    assert inputs.dtype == targets.dtype == np.int32
    assert ids.tolist() == [10, 11, 12, 13, 14, 1, 0, 0]


def test_fifteen_percent_are_chosen_and_of_these_the_shares_become_what_the_paper_says():
    """20,000 chosen tokens, within five standard deviations; a random token equals the original once in a thousand."""
    rng, chosen = np.random.default_rng(0), 20_000
    ids = np.append(rng.integers(3, 1000, round(chosen / 0.15)), 1)
    inputs, targets = MASKING(ids, rng)
    places = targets != 0
    assert places.sum() == chosen
    assert (targets[places] == ids[places]).all()
    assert (inputs[~places] == ids[~places]).all()
    hidden, kept = (inputs[places] == 2).sum(), (inputs[places] == ids[places]).sum()
    assert abs(hidden / chosen - 0.8) < 5 * (0.8 * 0.2 / chosen) ** 0.5
    assert abs(kept / chosen - 0.1) < 5 * (0.1 * 0.9 / chosen) ** 0.5


@pytest.mark.parametrize(("length", "expected"), [(0, 0), (1, 1), (3, 1), (10, 2), (20, 3)])
def test_one_token_is_chosen_at_least_where_there_is_one(length, expected):
    ids = np.array([*range(5, 5 + length), 1, 0, 0])
    inputs, targets = MASKING(ids, np.random.default_rng(1))
    assert (targets != 0).sum() == expected
    assert inputs[length:].tolist() == [1, 0, 0]


def test_the_variant_reads_the_targets_twice_and_hides_them():
    problem = get_problem("text2text_files_masked").with_encoders(
        {"inputs": TokenEncoder(("a",)), "targets": TokenEncoder(("b", "c"))}
    )
    assert problem.columns == {"inputs": "targets", "targets": "targets"}
    assert problem.spec().inputs == problem.spec().targets
    assert problem.spec().shared_vocabulary
    assert problem.metrics == ("neg_log_perplexity", "accuracy")
    assert problem.masking() == TokenMasking(vocab_size=5, mask_id=2)
    assert problem.base.masking() is None


def test_bytes_have_no_unknown_word_but_one_that_texts_do_not_have():
    problem = get_problem("languagemodel_files_masked").with_encoders({"targets": ByteEncoder()})
    assert problem.masking() == TokenMasking(vocab_size=258, mask_id=2)
    assert ByteEncoder().encode("\0") == [2]


def test_a_vocabulary_whose_every_id_may_occur_is_refused():
    pieces = ["<pad>_", "<EOS>_", *sorted(ESCAPE_CHARACTERS)]
    problem = get_problem("languagemodel_files_masked").with_encoders({"targets": SubwordEncoder(pieces)})
    with refused("languagemodel_files_masked:", "subword", "--vocab_kind=sentencepiece,", "byte", "token"):
        problem.masking()


def test_what_is_hidden_is_not_swapped():
    with refused("text2text_files_masked_rev:", "_masked"):
        get_problem("text2text_files_masked_rev")
