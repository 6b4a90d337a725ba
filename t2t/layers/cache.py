"""Keys and values of the positions decoded so far, of which beam search moves none.

The beams of a sentence are kept side by side. When a hypothesis goes on in another beam, what it has written stays
where it is; `ancestors` tells whose it is now, and attention looks at the entries of all beams through a mask. Moving
keys and values instead would copy all of them at every step.

Legend: G groups of beams (sentences, or rows that each search alone), K beams of a group, L positions, H heads,
C channels of one head.
"""

from typing import Any, NamedTuple

from keras import ops

from t2t.layers.attention import KeysValues
from t2t.layers.beams import gather_beams
from t2t.layers.masks import CAUSAL, Span, span_keep


class GrowingCache(NamedTuple):
    """A cache as long as what has been decoded; each position is appended."""

    layers: tuple[KeysValues, ...]
    """Of each layer: (G, H, L*K, C); entry p * K + k is what beam k wrote at position p."""
    ancestors: Any
    """(G, K, L) int32: the beam whose entry at each position belongs to what is now in beam k."""


class FixedCache(NamedTuple):
    """The same with room for every position from the start, for compilers that want fixed shapes."""

    layers: tuple[KeysValues, ...]
    ancestors: Any


Cache = GrowingCache | FixedCache


def empty_cache(
    groups: Any, beams: int, heads: int, channels: tuple[int, int], layers: int, length: Any, dtype: str
) -> Cache:
    """Returns a cache of no position.

    Args:
        groups: G, int or () int32.
        beams: K.
        heads: H.
        channels: C of keys and of values.
        layers: how many layers.
        length: L where it is fixed; None for a cache that grows.
        dtype: of keys and values.
    """
    room = 0 if length is None else length
    keys_values = tuple(
        KeysValues(*(ops.zeros((groups, heads, room * beams, c), dtype=dtype) for c in channels)) for _ in range(layers)
    )
    kind = GrowingCache if length is None else FixedCache
    return kind(keys_values, ops.zeros((groups, beams, room), "int32"))


def set_own_position(cache: Cache, position: Any) -> Any:
    """Returns the ancestors (G, K, L) with the position, () int32, at which every beam writes for itself."""
    groups, beams, length = ops.shape(cache.ancestors)
    own_K1 = ops.arange(beams, dtype="int32")[:, None]
    if isinstance(cache, FixedCache):
        return ops.where(ops.equal(ops.arange(length), position), own_K1, cache.ancestors)
    return ops.concatenate([cache.ancestors, ops.broadcast_to(own_K1, (groups, beams, 1))], axis=2)


def ancestors_keep(ancestors: Any, position: Any, span: Span = CAUSAL) -> Any:
    """Returns (G, 1, K, L*K) bool: each beam may look at what its ancestors wrote within `span` of `position`."""
    _, beams, length = ops.shape(ancestors)
    is_whose_GKLK = ops.equal(ancestors[..., None], ops.arange(beams, dtype="int32"))
    here_1 = ops.reshape(ops.cast(position, "int32"), (1,))
    is_seen_L1 = ops.transpose(span_keep(here_1, ops.arange(length, dtype="int32"), span))
    return ops.reshape(ops.logical_and(is_whose_GKLK, is_seen_L1), (-1, 1, beams, length * beams))


def write_position(kind: type[Cache], past: KeysValues, new: KeysValues, position: Any) -> KeysValues:
    """Returns a layer's keys and values with those of one position.

    Args:
        kind: of the cache.
        past: (G, H, L*K, C) each.
        new: (G, H, K, C) each.
        position: () int32.
    """
    if kind is GrowingCache:
        return KeysValues(*(ops.concatenate(pair, axis=2) for pair in zip(past, new, strict=True)))
    return KeysValues(*(_write_keys(old, one, position) for old, one in zip(past, new, strict=True)))


def _write_keys(old: Any, one: Any, position: Any) -> Any:
    # A select, not a slice update: outside a compiled loop TensorFlow compiles the latter once for every shape.
    beams = ops.shape(one)[2]
    is_new_L1 = ops.equal(ops.arange(ops.shape(old)[2]) // beams, position)[:, None]
    return ops.where(is_new_L1, ops.tile(one, (1, 1, ops.shape(old)[2] // beams, 1)), old)


def reorder_ancestors(cache: Cache, beams: Any) -> Cache:
    """Returns the cache after each beam went on from another, (G, K) int32."""
    return cache._replace(ancestors=gather_beams(cache.ancestors, beams))
