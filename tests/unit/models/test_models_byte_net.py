"""ByteNet: its unfolding, its units by hand, and its size. Legend: B batch, S source length, D width."""

import numpy as np

from t2t.layers.dilated_blocks import MultiplicativeUnit
from tests.builders import batch, numpy, padded
from tests.unit.models.references import tiny


def test_the_source_is_given_a_times_its_length_and_b_more():
    """1.2 * 5 = 6, 1.2 * 1 -> 2, 1.2 * 7 = 8.4 -> 9, each and 1 more; zeros after that, whatever the padding."""
    encoded = numpy(tiny("byte_net").encode({"inputs": batch(sources=(5, 1, 7), widths=(12, 0))["inputs"]}))
    assert encoded.shape[1] == 16  # 1.2 * 12 -> 15 and 1
    assert [int((row != 0).any(axis=1).sum()) for row in encoded] == [7, 3, 10]
    assert [int(np.flatnonzero((row != 0).any(axis=1))[-1]) for row in encoded] == [6, 2, 9]


def test_a_target_may_be_longer_than_what_it_unfolds_over():
    model = tiny("byte_net", unfolding_factor=1.0, unfolding_offset=0)
    features = {"inputs": padded([[4, 1]]), "targets": padded([[5, 6, 7, 8, 9, 1]])}
    full = numpy(model(features))
    encoded = model.encode(features)
    cache, last = model.init_cache(encoded, 1, 6), np.zeros(1, np.int32)
    for position in range(6):
        logits, cache = model.decode_step(last, position, cache, encoded)
        np.testing.assert_allclose(numpy(logits), full[:, position], rtol=1e-4, atol=1e-5)
        last = features["targets"][:, position]


def test_a_multiplicative_unit_by_hand():
    """One channel: a norm of one value is its beta, so the gates are sigmoid(beta) and the update tanh(beta)."""
    layer = MultiplicativeUnit(1, 3, name="unit", causal=True)
    layer.build((None, None, 1))
    for norm, beta in zip(layer.norms, (0.0, 50.0, -50.0, 0.7), strict=True):
        norm.beta.assign([beta])
    # g = 1/2, 1, 0: tanh(h) / 2
    np.testing.assert_allclose(numpy(layer(np.full((1, 2, 1), 0.3, np.float32))), np.full((1, 2, 1), np.tanh(0.3) / 2))
    layer.norms[2].beta.assign([50.0])
    found = numpy(layer(np.full((1, 2, 1), 0.3, np.float32)))
    np.testing.assert_allclose(found, np.full((1, 2, 1), np.tanh(0.3 + np.tanh(0.7)) / 2), rtol=1e-6)


def test_parameters_of_a_block_by_hand():
    """Of 2d = 8 channels: 8*4 + 4 narrow, 3*4*4 + 4 window, 4*8 + 8 wide, norms 2 * (8 + 4 + 4)."""
    blocks = {block: tiny("byte_net", block=block).decoder.blocks[0] for block in ("relu", "multiplicative", "cascade")}
    count = {block: sum(np.size(v) for v in layer.variables) for block, layer in blocks.items()}
    assert count["relu"] == 36 + 52 + 40 + 32
    # The unit: four windows and their norms in place of one window and the norm before it.
    assert count["multiplicative"] == 36 + 4 * 52 + 40 + 2 * (8 + 4 + 4 * 4)
    assert count["cascade"] == 2 * (3 * 8 * 8 + 16) + 16
