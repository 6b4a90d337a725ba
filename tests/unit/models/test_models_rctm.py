"""Recurrent continuous translation models: their mean in half precision."""

import numpy as np

from tests.builders import batch, numpy
from tests.unit.models.references import tiny


def test_the_mean_of_many_columns_is_as_exact_in_half_precision_as_its_type():
    model = tiny("rctm_1", dtype="mixed_bfloat16")
    features = batch(sources=range(257, 273))
    columns_BSD, count_B = model.convolutions(*model.read_source(features))
    expected = numpy(columns_BSD).sum(axis=1) / numpy(count_B)[:, None]
    np.testing.assert_allclose(numpy(model.encode(features)), expected, rtol=2**-8)
