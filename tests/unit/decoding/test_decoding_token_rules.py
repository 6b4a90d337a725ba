"""Rules on the end of sequence, by hand. Ids: 0 padding, 1 end of sequence."""

import keras
import numpy as np

from t2t.decoding.constraints.token_rules import delay_end, penalise_end
from t2t.decoding.step import NextToken

NEVER = -np.inf
SCORES = [[NEVER, -1.0, -3.0], [NEVER, -2.0, NEVER]]


def changed(rule, *arguments):
    found = NextToken(keras.ops.convert_to_tensor(SCORES, "float32"), normalised=True)
    return np.asarray(rule(found, *arguments).scores)


def test_an_output_does_not_end_early_unless_nothing_else_may_be_written():
    np.testing.assert_array_equal(changed(delay_end, 2, 3), [[NEVER, NEVER, -3.0], [NEVER, -2.0, NEVER]])
    np.testing.assert_array_equal(changed(delay_end, 3, 3), SCORES)


def test_the_penalty_lowers_the_end_alone():
    np.testing.assert_array_equal(changed(penalise_end, 0.5), [[NEVER, -1.5, -3.0], [NEVER, -2.5, NEVER]])
