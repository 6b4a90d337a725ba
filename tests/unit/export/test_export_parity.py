"""An export is held against its run, output by output."""

import pytest

from t2t.export.parity import Answer, Parity, ParityError, compare

OURS = [[Answer((5, 1), -0.5, "a"), Answer((6, 1), -20.0, "b")], [Answer((7, 1), -3.0, "c")]]


def changed(row, k, **fields):
    found = [list(answers) for answers in OURS]
    found[row][k] = Answer(
        **{"ids": found[row][k].ids, "score": found[row][k].score, "text": found[row][k].text} | fields
    )
    return found


def test_the_same_answers_pass():
    parity = compare(OURS, OURS)
    assert parity.to_dict() == {"inputs": 2, "identical": 2, "largest_difference": 0.0}
    parity.demand("ids")


def test_scores_within_tolerance_pass_absolute_below_one_and_relative_above():
    parity = compare(OURS, changed(0, 1, score=-20.01))
    assert parity.largest_difference == pytest.approx(0.0005)
    parity.demand("ids")
    assert compare(OURS, changed(0, 0, score=-0.502)).largest_difference == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("row", "k", "fields", "said"),
    [
        (1, 0, {"ids": (8, 1)}, "ids: 1 of 2 outputs are those of the run, scores differ by up to 0; "),
        (1, 0, {"text": "C"}, "the first that is not is input 2: 'C' (-3.0000) instead of 'c' (-3.0000); the"),
        (0, 1, {"text": "B"}, "ids: 1 of 2 outputs"),
        (0, 0, {"score": -0.6}, "ids: 2 of 2 outputs are those of the run, scores differ by up to 0.1; all must be "
         "the same and scores within 0.001"),
    ],
)  # fmt: skip
def test_what_differs_is_said(row, k, fields, said):
    with pytest.raises(ParityError) as raised:
        compare(OURS, changed(row, k, **fields)).demand("ids")
    assert said in str(raised.value)
    assert raised.value.exit_status == 1


def test_a_missing_hypothesis_differs():
    assert compare(OURS, [OURS[0][:1], OURS[1]]).identical == 1
    assert compare(OURS, [OURS[0], []]).identical == 1


def test_formats_of_ids_alone_are_held_to_the_ids():
    bare = [[Answer(answer.ids, answer.score) for answer in answers] for answers in OURS]
    compare(OURS, bare).demand("ids")
    assert compare(OURS, [bare[0], [Answer((8, 1), -3.0)]]).identical == 1


def test_where_outputs_are_given_their_scores_count_alone():
    parity = Parity(3, None, 0.02)
    assert str(parity) == "3 outputs are those of the run, scores differ by up to 0.02"
    parity.demand("probabilities", 0.05)
    with pytest.raises(ParityError, match=r"probabilities: 3 outputs .* scores within 0.001; the export is not kept"):
        parity.demand("probabilities")
