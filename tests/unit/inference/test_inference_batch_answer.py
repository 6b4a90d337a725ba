"""Outputs of non-autoregressive models.

Legend: B rows of a batch, P positions, V vocabulary, C classes.
"""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.groups import DecodeHParams
from t2t.inference.batch_answer import BatchAnswer, classes, tokens
from t2t.inference.translator import Translator
from t2t.layers.losses import token_weights
from t2t.layers.target_scores import score_logits
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.token import TokenEncoder
from tests.errors import refused
from tests.letters import Letters, Moods

WORDS = TokenEncoder("abcd")


class Table:
    """A non-autoregressive model: a row of logits for each id, or, for classes, for the first id."""

    autoregressive, variables, longest_sequence, hparams = False, (), None, None

    def __init__(self, problem, logits):
        self.spec, self.rows = problem.spec(), tf.constant(logits, tf.float32)

    def __call__(self, features):
        ids = features["inputs"]
        return tf.gather(self.rows, ids if self.spec.targets.kind == FeatureKind.TOKENS else ids[:, 0])

    def score_targets(self, features):
        scores = score_logits(self(features), features["targets"])
        return scores._replace(log_probs=scores.log_probs * token_weights(features["targets"]))


def logs(*probabilities):
    return np.log(np.array(probabilities, np.float32))


def translator(problem_class, logits):
    problem = problem_class()
    problem.with_encoders(dict.fromkeys(problem.text_features, WORDS))
    # These search settings must have no effect, since there is no search.
    hparams = DecodeHParams(beam_size=3, alpha=1.0, extra_length=7, max_input_length=20)
    return Translator(problem, Table(problem, logits), hparams)


# === Reading off ===


@pytest.mark.parametrize(
    ("logits", "limits", "ids", "probabilities"),
    [
        # Of {padding, end, a, b}: tokens end at the first end of sequence, and are never padding: the second row's
        # first id would be padding with 0.7, and is b with 0.2.
        (logs([[0.1, 0.1, 0.2, 0.6], [0.1, 0.8, 0.05, 0.05], [0.1, 0.1, 0.7, 0.1]],
              [[0.7, 0.04, 0.06, 0.2], [0.1, 0.2, 0.4, 0.3], [0.25, 0.1, 0.15, 0.5]]), None,
         [[3, 1], [3, 2, 3]], [0.6 * 0.8, 0.2 * 0.4 * 0.5]),
        # They go no further than a row does.
        (logs(*[[[0.1, 0.1, 0.2, 0.6]] * 3] * 2), np.array([1, 3], np.int32), [[3], [3, 3, 3]], [0.6, 0.6**3]),
    ],
    ids=["ends", "limits"],
)  # fmt: skip
def test_tokens_by_hand(logits, limits, ids, probabilities):
    found = tokens(logits, limits)
    np.testing.assert_array_equal(found.ids, [[[*row, *[0] * (3 - len(row))]] for row in ids])
    np.testing.assert_array_equal(found.lengths, [[len(row)] for row in ids])
    np.testing.assert_allclose(found.log_probs, np.log(probabilities)[:, None], rtol=1e-5)
    np.testing.assert_array_equal(found.scores, found.log_probs)


def test_classes_come_likeliest_first_and_ties_go_to_the_lower():
    found = classes(logs([0.2, 0.3, 0.5], [0.4, 0.2, 0.4]), 2)
    np.testing.assert_array_equal(found.ids, [[[2], [1]], [[0], [2]]])
    np.testing.assert_array_equal(found.lengths, [[1, 1], [1, 1]])
    np.testing.assert_allclose(found.log_probs, np.log([[0.5, 0.3], [0.4, 0.4]]), rtol=1e-5)


def test_a_model_of_other_inputs_than_ids_answers_at_all_its_positions():
    class Constant:
        variables = ()
        image = FeatureSpec(kind=FeatureKind.IMAGE, shape=(2, 2, 1))
        targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=4)
        spec = ProblemSpec(name="seen", features={"inputs": image, "targets": targets})

        def __call__(self, features):
            return tf.tile(logs([[0.1, 0.1, 0.2, 0.6]] * 2), (tf.shape(features["inputs"])[0], 1, 1))

    found = BatchAnswer(Constant())(np.zeros((3, 2, 2, 1), np.uint8))
    np.testing.assert_array_equal(found.ids, [[[3, 3]]] * 3)


# === Through a translator ===

SHIFTED = logs(  # padding, end of sequence, unknown word, a, b, c, d
    [0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], [0.1, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1], [1 / 7] * 7,
    *(np.full(7, 0.1) + 0.3 * (np.arange(7) == 3 + (i + 1) % 4) for i in range(4)),
)  # fmt: skip


@pytest.fixture(scope="module")
def shift():
    return translator(Letters, SHIFTED)


def test_texts_are_answered_position_by_position(shift):
    assert WORDS.encode("a b c d") == [3, 4, 5, 6]
    found = shift.translate(["a b c", "d", "", "d c b a a"])
    assert [one.text for (one,) in found] == ["b c d", "a", "", "a d c b b"]
    assert [one.ids for (one,) in found] == [(4, 5, 6, 1), (3, 1), (), (3, 6, 5, 4, 4, 1)]
    for (one,), positions in zip(found, [4, 2, 1, 6], strict=True):
        assert one.log_prob == one.score == pytest.approx(positions * math.log(0.4), rel=1e-5)
    assert shift.translate(["a b c", "d", "", "d c b a a"], decode_batch_size=3) == found
    scores = shift.score([("a b c", "b c d"), ("a b c", "b c b")])
    assert scores == pytest.approx([4 * math.log(0.4), 3 * math.log(0.4) + math.log(0.1)], rel=1e-5)


@pytest.fixture(scope="module")
def mood():
    """The classes are good, bad and so so."""
    return translator(Moods, logs(*[[1 / 3] * 3] * 3, [0.2, 0.1, 0.7], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [1 / 3] * 3))


def test_classes_are_named(mood):
    found = mood.translate(["a b", "b c c", "c"], 2)
    assert [[one.text for one in likeliest] for likeliest in found] == [
        ["so so", "good"], ["good", "bad"], ["bad", "good"],
    ]  # fmt: skip
    assert [one.ids for one in found[0]] == [(2,), (0,)]
    assert found[1][0].log_prob == pytest.approx(math.log(0.5), rel=1e-5)
    assert len(mood.translate(["a"], 3)[0]) == 3


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (lambda shift, mood: shift.translate(["a"], 0), ["n_best=0", 1]),
        (lambda shift, mood: shift.translate(["a"], 2), ["n_best=2", 1]),
        (lambda shift, mood: mood.translate(["a"], 4), ["n_best=4", 1, 3]),
        (lambda shift, mood: mood.score([("a b", "good")]), ["moods", "n_best"]),
        (lambda shift, mood: mood.score_ids([[3]], [[2]]), ["moods", "n_best"]),
    ],
)
def test_there_is_one_answer_of_ids_and_classes_are_not_scored_as_texts_are(shift, mood, call, about):
    with refused(*about):
        call(shift, mood)


def test_where_there_are_no_inputs_there_is_nothing_to_answer():
    problem = Letters().with_encoders({"targets": WORDS})
    problem.text_features = ("targets",)
    with refused("letters", "Table"):
        Translator(problem, Table(problem, SHIFTED), DecodeHParams())
