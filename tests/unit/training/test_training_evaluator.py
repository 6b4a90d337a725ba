"""Teacher-forced figures by hand, and what an evaluation is made of."""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import MachineError, UnknownNameError
from t2t.training.evaluator import Evaluator


class Table:
    """A model whose logits for a target are the batch's own: ln 3 for `guess`, 0 for the other of two ids 1 and 2.

    So the guess has probability 3/5 among four ids {0, 1, 2, 3}: 3 / (3 + 1 + 1 + 1) = 1/2.
    """

    def __call__(self, features):
        return tf.one_hot(features["guess"], 4) * math.log(3.0)


def batch(guesses, targets):
    return np.arange(len(targets)), {"guess": np.array(guesses, np.int32), "targets": np.array(targets, np.int32)}


BATCHES = [
    batch([[2, 3, 1], [2, 2, 1]], [[2, 3, 1], [3, 2, 1]]),  # all right; two of three right
    batch([[3, 1, 0, 0]], [[3, 1, 0, 0]]),  # all right; what is guessed at padding does not count
]


def test_by_hand():
    """Eight tokens, seven right: p = 1/2 for the right ones and 1/6 for the wrong one."""
    figures = Evaluator(Table(), BATCHES, None, ())()
    loss = (7 * math.log(2) + math.log(6)) / 8
    expected = {
        "teacher_forced/loss": loss,
        "teacher_forced/perplexity": math.exp(loss),
        "teacher_forced/neg_log_perplexity": -loss,
        "teacher_forced/accuracy": 7 / 8,
        "teacher_forced/accuracy_per_sequence": 2 / 3,
    }
    assert figures.keys() == expected.keys()
    for name, value in expected.items():
        assert figures[name] == pytest.approx(value, rel=1e-5), name


def test_classes_are_sequences_of_one_token_and_class_0_is_one_of_them():
    """Four examples, three right; p = 1/2 for the right ones and 1/6 for the wrong one."""
    figures = Evaluator(Table(), [batch([0, 2, 3], [0, 2, 0]), batch([0], [0])], None, ())()
    assert figures["teacher_forced/accuracy"] == figures["teacher_forced/accuracy_per_sequence"] == 3 / 4
    assert figures["teacher_forced/loss"] == pytest.approx((3 * math.log(2) + math.log(6)) / 4, rel=1e-5)


def test_rows_of_padding_are_no_sequences():
    figures = Evaluator(Table(), [batch([[2, 1], [0, 0]], [[2, 1], [0, 0]])], None, ())()
    assert figures["teacher_forced/accuracy_per_sequence"] == 1.0
    assert figures["teacher_forced/accuracy"] == 1.0


def test_batches_may_be_evaluated_again_and_give_the_same():
    evaluator = Evaluator(Table(), BATCHES, None, ())
    assert evaluator() == evaluator()


def test_text_metrics_are_of_real_decodes_and_the_others_are_not():
    calls = []

    def decode():
        calls.append(1)
        return ["a b", "c"], ["a b", "d"]

    figures = Evaluator(Table(), BATCHES, decode, ("accuracy_per_sequence", "accuracy"))()
    assert figures["accuracy_per_sequence"] == 0.5
    assert "accuracy" not in figures
    assert len(calls) == 1


def test_decodes_are_scored_in_their_language():
    lines = ["猫坐在垫子上面。"], ["猫坐在垫子上。"]
    figures = [Evaluator(Table(), BATCHES, lambda: lines, ("bleu",), *language)()["bleu"] for language in ((), ("zh",))]
    assert figures[0] == 0
    assert figures[1] > 50


def test_nothing_is_decoded_for_teacher_forced_figures_alone():
    Evaluator(Table(), BATCHES, lambda: pytest.fail("decoded"), ("accuracy",))()


def test_an_unknown_metric_is_named_before_anything_runs():
    with pytest.raises(UnknownNameError, match=r"metric 'bleue' is not known; did you mean bleu"):
        Evaluator(Table(), BATCHES, None, ("bleue",))


def test_running_out_of_memory_says_of_what_and_what_to_do():
    class Full:
        def __call__(self, features):
            raise MemoryError

    with pytest.raises(MachineError) as raised:
        Evaluator(Full(), BATCHES, None, ())()
    assert str(raised.value) == (
        "a batch of guess (2, 3), targets (2, 3) does not fit into the device's memory; make batch_size or "
        "max_input_length smaller"
    )
