"""Attention through ancestors, compared with caches that are copied whenever beams are reordered.

Legend: G groups, K beams, L positions, H heads, C channels.
"""

import numpy as np
import pytest

from t2t.layers.attention import attention_weights
from t2t.layers.cache import CachingLayer, FixedCache, GrowingCache, KeysValues, StepCache, empty_cache, reorder_entries

G, K, L, H, C = 3, 4, 6, 2, (5, 7)


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def copied_and_attended(rng):
    """Yields for each position: new keys and values, queries, the chosen beams, and the attention outputs.

    Each beam has a separate list of its past keys and values, which is copied when beams are reordered.
    """
    histories = [[([], []) for _ in range(K)] for _ in range(G)]
    for _ in range(L):
        keys, queries = rng.normal(size=(2, G, H, K, C[0])).astype("float32")
        values = rng.normal(size=(G, H, K, C[1])).astype("float32")
        found = np.zeros((G, H, K, C[1]), "float32")
        for g in range(G):
            for k, (past_keys, past_values) in enumerate(histories[g]):
                past_keys.append(keys[g, :, k])
                past_values.append(values[g, :, k])
                scores_HL = np.einsum("hc,lhc->hl", queries[g, :, k], past_keys) / np.sqrt(C[0])
                found[g, :, k] = np.einsum("hl,lhc->hc", softmax(scores_HL), past_values)
        beams = rng.integers(0, K, (G, K)).astype("int32")
        histories = [[tuple(map(list, history[k])) for k in beams[g]] for g, history in enumerate(histories)]
        yield KeysValues(keys, values), queries, beams, found


class Entry(CachingLayer):
    """A layer with a self-attention entry in the cache."""

    def empty_entry(self, rows, beams, length):
        shape = (rows // beams, H, length * beams)
        return KeysValues(*(np.zeros((*shape, channels), np.float32) for channels in C))


@pytest.mark.parametrize(("length", "kind"), [(None, GrowingCache), (L + 2, FixedCache)], ids=["growing", "fixed"])
def test_attention_through_ancestors_is_attention_over_copies(length, kind):
    layer = Entry()
    cache = empty_cache([layer], G * K, length, beams=K)
    assert type(cache) is kind
    for position, (new, queries, beams, expected) in enumerate(copied_and_attended(np.random.default_rng(1))):
        step = StepCache(cache, position, {})
        written = step.extend_keys_values(layer.path, new)
        weights = np.asarray(attention_weights(queries, written.keys, step.keep()))
        np.testing.assert_allclose(weights @ np.asarray(written.values), expected, rtol=1e-4, atol=1e-5)
        cache = reorder_entries(step.result(), beams)
    assert np.asarray(cache.ancestors).shape == (G, K, length or L)
    if length:
        keys = np.asarray(cache.keys_values[layer.path].keys)
        assert not keys[:, :, L * K :].any(), "positions that have not come yet are empty"
