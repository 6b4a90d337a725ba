"""Initial weights of a Transformer and the places of section 5.4's dropout, in addition to the tests of layers."""

import re

import numpy as np
import pytest
import tensorflow as tf

from t2t.models.transformer import Transformer
from tests.builders import numpy, tiny_hparams, tokens_spec

D, F, KEYS, VALUES, PIECES = 48, 80, 24, 64, 300
VARIANCES = {
    r"(target|source|output)_embedding/table": 1 / D,
    r"positions/table": 1 / D,
    r"attention/project/(query|key)_kernel": 2 / (D + KEYS),
    r"attention/project/value_kernel": 2 / (D + VALUES),
    r"attention/output/kernel": 2 / (VALUES + D),
    r"ffn/(inner|outer)/kernel": 2 / (D + F),
}
"""Tables N(0, D^-1/2) (section 3.4); kernels of Glorot and Bengio 2010, equation 16: variance 2 / (in + out)."""


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_every_weight_begins_with_its_variance(norm_position):
    hparams = tiny_hparams(
        hidden_size=D, filter_size=F, attention_key_channels=KEYS, attention_value_channels=VALUES,
        positions="learned", attention_bias=True, norm_position=norm_position, max_length=200,
        shared_embedding=False, shared_embedding_and_softmax_weights=False,
    )  # fmt: skip
    seen = set()
    for variable in Transformer(hparams, tokens_spec(PIECES, PIECES)).variables:
        value = np.asarray(variable, np.float64)
        matching = [pattern for pattern in VARIANCES if re.search(pattern + "$", variable.path)]
        if matching:
            (pattern,) = matching
            seen.add(pattern)
            # Five standard deviations of the estimate of a variance from so many values; a normal one's is the larger.
            tolerance = 5 * np.sqrt(2 / value.size)
            np.testing.assert_allclose(value.var(), VARIANCES[pattern], rtol=tolerance, err_msg=variable.path)
            assert abs(value.mean()) < 5 * np.sqrt(VARIANCES[pattern] / value.size), variable.path
        else:
            assert re.search(r"(bias|beta|gamma)$", variable.path), variable.path
            np.testing.assert_array_equal(value, float(variable.path.endswith("gamma")))
    assert seen == set(VARIANCES)


@pytest.mark.parametrize("side", ["source", "target"])
def test_dropout_is_on_the_sum_of_embedding_and_position(side, monkeypatch):
    """Embeddings are 0 and positions 1, so that a sum that lost a value is 0 and one that kept it 1 / (1 - 0.5)."""
    model = Transformer(tiny_hparams(positions="learned", layer_prepostprocess_dropout=0.5), tokens_spec())
    model.target_embedding.table.assign(np.zeros_like(model.target_embedding.table))
    model.positions.table.assign(np.ones_like(model.positions.table))
    given = {}
    stack = {"source": model.encoder, "target": model.decoder}[side]
    call = type(stack).call
    monkeypatch.setattr(
        type(stack), "call", lambda self, x, *args, **kwargs: given.update(x=x) or call(self, x, *args, **kwargs)
    )
    features = {name: np.full((4, 32), 5, np.int32) for name in ("inputs", "targets")}
    model.body(features, seed=tf.constant([1, 2], tf.int64))
    np.testing.assert_allclose(np.unique(numpy(given["x"])), [0.0, 2.0])
    # 1,024 values: one standard deviation of the fraction is 0.016.
    assert abs((numpy(given["x"]) == 0.0).mean() - 0.5) < 0.08
    model.body(features)
    np.testing.assert_array_equal(numpy(given["x"]), 1.0)


def test_the_paper_has_dropout_nowhere_else():
    """With section 5.4's dropout at 0, outputs with a seed equal those without a seed."""
    model = Transformer(tiny_hparams(), tokens_spec())
    features = {name: np.full((2, 5), 5, np.int32) for name in ("inputs", "targets")}
    np.testing.assert_array_equal(numpy(model(features, seed=tf.constant([1, 2], tf.int64))), numpy(model(features)))
