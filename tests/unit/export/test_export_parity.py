"""An export is compared with its run, output by output."""

import dataclasses
import math

import pytest
import tensorflow as tf

from t2t.errors import UserError
from t2t.export.formats import FLOAT32, INT8, PROMISES, Promise, relative_difference
from t2t.export.job import Trial
from t2t.export.parity import Answer, Parity, ParityError, compare, compare_scores, difference_per_token
from t2t.export.saved_model_trial import prove_signatures
from t2t.models.transformer_encoder import TransformerEncoder
from tests.errors import refused
from tests.letters import TEXTS, moods, translator_of

OURS = [
    [Answer((5, 1), -0.5, "a", -0.5, 0.6), Answer((6, 1), -20.0, "b", -20.0, 2e-9)],
    [Answer((7, 1), -3.0, "c", -3.0, 0.05)],
]
EXACT = PROMISES[FLOAT32]


def changed(row, k, **fields):
    found = [list(answers) for answers in OURS]
    found[row][k] = dataclasses.replace(found[row][k], **fields)
    return found


def test_the_same_answers_pass():
    parity = compare(OURS, OURS).demand("ids", EXACT)
    assert parity.to_dict() == {
        "inputs": 2, "identical": 2, "largest_difference": 0.0,
        "promised": {"identical_share": 1.0, "score_difference": 0.001},
    }  # fmt: skip


def test_scores_within_tolerance_pass_absolute_below_one_and_relative_above():
    parity = compare(OURS, changed(0, 1, score=-20.01))
    assert parity.largest_difference == pytest.approx(0.0005)
    parity.demand("ids", EXACT)
    assert compare(OURS, changed(0, 0, score=-0.502)).largest_difference == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("row", "k", "fields", "about"),
    [
        (1, 0, {"ids": (8, 1)}, "ids: 1 2 0;"),
        (1, 0, {"text": "C"}, "2: 'C' (-3.0000) 'c'"),
        (0, 1, {"text": "B"}, "ids: 1 2"),
        (0, 0, {"score": -0.6}, "ids: 2 0.1; 0.001;"),
        (1, 0, {"log_prob": -3.1}, "0.03;"),
        (1, 0, {"probability": 0.06}, "0.01;"),
    ],
)
def test_what_differs_is_said(row, k, fields, about):
    with refused(*about.split(), by=ParityError) as raised:
        compare(OURS, changed(row, k, **fields)).demand("ids", EXACT)
    assert raised.value.exit_status == 1


@pytest.mark.parametrize("promise", [EXACT, PROMISES[INT8], None], ids=str)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("figure", ["score", "log_prob", "probability"])
def test_figures_that_are_not_finite_never_pass(figure, value, promise):
    for row, k in ((0, 0), (0, 1), (1, 0)):
        odd = changed(row, k, **{figure: value})
        for expected, found in ((OURS, odd), (odd, OURS), (odd, odd)):
            with refused(row + 1, "finite:", by=ParityError):
                compare(expected, found).demand("ids", promise)
            with pytest.raises(ParityError):
                compare(expected, found, difference_per_token).demand("ids", promise)
    also_other_ids = changed(1, 0, ids=(8, 1), **{figure: value})
    with pytest.raises(ParityError):
        compare(OURS, also_other_ids).demand("ids", Promise(0.1, 9.0))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_scores_of_given_outputs_that_are_not_finite_never_pass(value):
    for expected, found in (
        ([-1.0, -2.0, -3.0], [-1.0, value, -3.0]),
        ([value, -1.0], [-1.0, -1.0]),
        ([value], [value]),
    ):
        assert compare_scores(expected, found).largest_difference == math.inf
        with refused("inf", by=ParityError):
            compare_scores(expected, found).demand("score", EXACT)
    assert compare_scores([-1.0, -2.0], [-1.0, -2.2]).largest_difference == pytest.approx(0.1)
    with pytest.raises(ParityError):
        Parity(1, None, math.nan).demand("score", None)


def test_differences_are_relative_above_one():
    assert relative_difference(-0.5, -0.4) == pytest.approx(0.1)
    assert relative_difference(-10.0, -11.0) == pytest.approx(0.1)
    assert relative_difference(-1.0, math.nan) == relative_difference(math.inf, math.inf) == math.inf
    assert difference_per_token(Answer((5, 6, 7, 1), -2.0), Answer((5, 6, 7, 1), -3.0)) == pytest.approx(0.25)


def test_a_missing_hypothesis_differs():
    assert compare(OURS, [OURS[0][:1], OURS[1]]).identical == 1
    assert compare(OURS, [OURS[0], []]).identical == 1


def test_what_a_format_does_not_give_is_not_compared():
    bare = [[Answer(answer.ids, answer.score) for answer in answers] for answers in OURS]
    compare(OURS, bare).demand("ids", EXACT)
    assert compare(OURS, [bare[0], [Answer((8, 1), -3.0)]]).identical == 1
    texts = [[Answer(None, answer.score, answer.text) for answer in answers] for answers in OURS]
    compare(OURS, texts).demand("texts", EXACT)
    assert compare(OURS, [texts[0], [Answer(None, -3.0, "d")]]).identical == 1


def test_rounded_weights_promise_a_share_of_the_outputs_and_a_bound_on_each_score():
    promise = Promise(0.5, 0.2)
    outputs = [[Answer((n, 1), -1.0)] for n in range(2, 7)]
    others = [[Answer((9, 1), -1.0)]] * 5
    compare(outputs, outputs[:3] + others[3:]).demand("greedy search", promise)
    with refused("greedy", "2", "5", "50%", by=ParityError):
        compare(outputs, outputs[:2] + others[2:]).demand("greedy search", promise)
    off = [[Answer((2, 1), -1.5)], *outputs[1:]]
    assert compare(outputs, off, difference_per_token).largest_difference == 0.25
    with refused("5", "0.2", by=ParityError):
        compare(outputs, off, difference_per_token).demand("greedy search", promise)


def test_where_outputs_are_given_their_scores_count_alone():
    parity = Parity(3, None, 0.02)
    assert str(parity) == "3 outputs are those of the run, scores differ by up to 0.02"
    parity.demand("probabilities", Promise(1.0, 0.05))
    with refused("probabilities:", "3", "0.001;", by=ParityError):
        parity.demand("probabilities", EXACT)


class More:
    """A signature, as it is loaded from a SavedModel, with an output that nothing compares."""

    structured_input_signature = ((), {"text": tf.TensorSpec([None], tf.string)})

    def __call__(self, text):
        return {"more": text}


@pytest.mark.parametrize(
    ("name", "by", "about"),
    [("more", ParityError, "more:"), ("serving_default", ParityError, "more:"), ("score", UserError, "score: 2")],
)
def test_what_a_signature_has_is_compared_or_it_is_refused(name, by, about):
    """Of the texts that are longer than their model reads, no probability can be compared."""
    translator, texts = translator_of(moods(), TransformerEncoder, decoding={"max_input_length": 3}), TEXTS[2:3]
    with refused(*about.split(), by=by):
        prove_signatures(translator, {name: More()}, Trial(translator.encode(texts), texts), 1, EXACT)
