"""The cache of decoding: what layers keep of earlier positions, so that a step computes only one position.

A layer that reads earlier positions takes `cache`, a `StepCache`: it reads its own entry and writes the next one.
Composite layers pass `cache` on. Without it, the same layers compute whole sequences.

Beam search does not move keys and values. The beams of a sentence are stored side by side. When a hypothesis continues
in another beam, its entries stay in place; `ancestors` records which beam they belong to now, and attention reads the
entries of all beams through a mask. Moving keys and values instead would copy all of them at every step.

Legend: B sentences, N rows, G groups of beams (sentences, or single rows where beams do not compete), K beams of a
group, N = G * K, Q rows of a sentence, L positions, H heads, C channels of one head, R positions that a window reaches
before its own, D channels.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.beams import gather_beams, reorder_rows
from t2t.layers.masks import CAUSAL, BlockWindow, Span, key_offsets, span_keep
from t2t.layers.mode import current_mode, entry_name, name_of_pass
from t2t.layers.tensors import Size, Tensor

FusedWeights = tuple[Tensor, ...]
"""One kernel, and one bias if there are biases, of several projections, see `HeadProjection`."""


class KeysValues(NamedTuple):
    """Projected keys (B, J, S, K) and values (B, J, S, U) of J heads, H or fewer."""

    keys: Tensor
    values: Tensor


class GrowingCache(NamedTuple):
    """A cache as long as the decoded sequence; each step appends a position."""

    keys_values: dict[str, KeysValues]
    """By path of the layer (see `entry_name`), (G, H, L*K, C) each; entry p * K + k is what beam k wrote at position p.
    """
    ancestors: Tensor | tuple[()]
    """(G, K, L) int32: for the hypothesis now in beam k, the beam that holds its entry of each position; () without
    attention."""
    states: dict[str, object]
    """By the same name: (N, R, D), the last inputs, which the window of the next position includes, or the state of a
    recurrence, a structure of tensors with leading axis N."""


class FixedCache(NamedTuple):
    """The same with space for all positions from the start, for compilers that need fixed shapes."""

    keys_values: dict[str, KeysValues]
    ancestors: Tensor | tuple[()]
    states: dict[str, object]


Cache = GrowingCache | FixedCache


class CachingLayer(keras.layers.Layer):
    """A layer that may read earlier positions of its own sequence.

    Attention, recurrences and convolutions take the same arguments: `x` (B, T, D), or with `cache` the position of a
    decoding step, (N, D); what they read besides; which positions to `keep`; and, if they have dropout, `seed`.

    Args:
        passes: how often it runs for each position, see `t2t.layers.mode`; None = once, outside of passes.
    """

    def __init__(self, passes: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.passes = passes

    def empty_entry(self, rows: Size, beams: int, length: Size) -> object:
        """Returns an empty entry, `KeysValues` or a state, see `GrowingCache`; None where it needs none.

        `rows` is N, `beams` K, and `length` L, the number of positions to allocate.
        """
        raise NotImplementedError


def layers_within(root: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns every layer within a model or a layer, each once, also those that Keras does not track."""
    seen: dict[int, keras.layers.Layer] = {}

    def visit(layer):
        for part in keras.tree.flatten(list(vars(layer).values())):
            if isinstance(part, keras.layers.Layer) and id(part) not in seen:
                seen[id(part)] = part
                visit(part)

    visit(root)
    return list(seen.values())


def empty_cache(layers: Iterable[CachingLayer], rows: Size, length: Size | None, beams: int) -> Cache:
    """Returns the cache before the first position: N `rows`, K `beams`, and L `length`, None for a cache that grows."""
    room = 0 if length is None else length
    entries = {name: layer.empty_entry(rows, beams, room) for layer in layers for name in _names_of(layer)}
    keys_values = {path: entry for path, entry in entries.items() if isinstance(entry, KeysValues)}
    states = {path: entry for path, entry in entries.items() if entry is not None and path not in keys_values}
    ancestors = ops.zeros((rows // beams, beams, room), "int32") if keys_values else ()
    return (GrowingCache if length is None else FixedCache)(keys_values, ancestors, states)


def _names_of(layer: CachingLayer) -> list[str]:
    """Returns the names of a layer's entries, of all its passes in their order."""
    if layer.passes is None:
        return [layer.path]
    return [name_of_pass(layer.path, number) for number in range(layer.passes)]


def reorder_entries(cache: Cache, beams: Tensor) -> Cache:
    """Returns the cache after each beam continues the one in `beams`, (G, K) int32; keys and values are not moved."""
    states = reorder_rows(cache.states, beams)
    ancestors: Any = cache.ancestors
    return cache._replace(states=states, ancestors=gather_beams(ancestors, beams) if cache.keys_values else ())


class StepCache:
    """The cache during one step, as layers see it.

    Args:
        cache: of the earlier positions.
        position: () int32, the position to compute.
        weights: by path of a self-attention, what its `fused_weights` returned.
    """

    def __init__(self, cache: Cache, position: Tensor, weights: dict[str, FusedWeights]):
        self.position, self.weights = position, weights
        self._kind, self._keys_values, self._states = type(cache), dict(cache.keys_values), dict(cache.states)
        self._ancestors: Any = _own_position_set(cache, position) if cache.keys_values else ()
        self._keep: dict[Span | BlockWindow, Tensor] = {}

    def result(self) -> Cache:
        """Returns the cache of the next step."""
        return self._kind(self._keys_values, self._ancestors, self._states)

    def extend_window(self, path: str, x_ND) -> Tensor:
        """Returns the window of a layer (N, R + 1, D), which ends with this position's input (N, D)."""
        name = entry_name(path)
        window = ops.concatenate([self._states[name], x_ND[:, None]], axis=1)
        self._states[name] = window[:, 1:]
        return window

    def state(self, path: str) -> Any:
        """Returns the state of a recurrent layer after the previous position, with leading axis N."""
        return self._states[entry_name(path)]

    def set_state(self, path: str, state: object) -> None:
        """Sets the state of a recurrent layer after this position."""
        self._states[entry_name(path)] = state

    def extend_keys_values(self, path: str, new: KeysValues) -> KeysValues:
        """Appends the keys and values of this position, (G, H, K, C) each; returns those of all positions."""
        name = entry_name(path)
        pairs = zip(self._keys_values[name], new, strict=True)
        if self._kind is GrowingCache:
            extended = KeysValues(*(ops.concatenate(pair, axis=2) for pair in pairs))
        else:
            extended = KeysValues(*(_write_at(self.position, old, one) for old, one in pairs))
        self._keys_values[name] = extended
        return extended

    def keep(self, span: Span | BlockWindow = CAUSAL) -> Tensor | None:
        """Returns (G, 1, K, L*K) bool: each beam may attend to the entries of its hypothesis within `span`.

        None for all, as where a single beam has written all entries.
        """
        if span == CAUSAL and self._kind is GrowingCache and self._ancestors.shape[1] == 1:
            return None
        if span not in self._keep:
            self._keep[span] = _ancestors_keep(self._ancestors, self.position, span)
        return self._keep[span]

    def key_offsets(self) -> Tensor:
        """Returns the position of each entry minus the step's, (1, L*K) int32."""
        _, beams, length = ops.shape(self._ancestors)
        here_1 = ops.reshape(ops.cast(self.position, "int32"), (1,))
        return key_offsets(here_1, ops.arange(length * beams, dtype="int32") // beams)

    def by_group(self, x_ND) -> Tensor:
        """Reshapes (N, D) to (G, K, D)."""
        return ops.reshape(x_ND, (-1, self._ancestors.shape[1], x_ND.shape[-1]))

    def by_sentence(self, x_ND, sentences) -> Tensor:
        """Reshapes (N, D) to (B, Q, D), the Q rows of each sentence, so that the source need not be copied."""
        rows = current_mode().rows_per_sentence  # a known size saves operations
        shape = (sentences, -1) if rows is None else (-1, rows)
        return ops.reshape(x_ND, (*shape, x_ND.shape[-1]))


def _own_position_set(cache: Cache, position: Tensor) -> Tensor:
    """Returns the ancestors (G, K, L); at `position`, those are the beams themselves."""
    groups, beams, length = ops.shape(cache.ancestors)
    own_K1 = ops.arange(beams, dtype="int32")[:, None]
    if isinstance(cache, FixedCache):
        return ops.where(ops.equal(ops.arange(length), position), own_K1, cache.ancestors)
    return ops.concatenate([cache.ancestors, ops.broadcast_to(own_K1, (groups, beams, 1))], axis=2)


def _ancestors_keep(ancestors: Tensor, position: Tensor, span: Span | BlockWindow) -> Tensor:
    _, beams, length = ops.shape(ancestors)
    is_whose_GKLK = ops.equal(ancestors[..., None], ops.arange(beams, dtype="int32"))
    here_1 = ops.reshape(ops.cast(position, "int32"), (1,))
    is_seen_L1 = ops.transpose(span_keep(here_1, ops.arange(length, dtype="int32"), span))
    return ops.reshape(ops.logical_and(is_whose_GKLK, is_seen_L1), (-1, 1, beams, length * beams))


def _write_at(position: Tensor, old: Tensor, one: Tensor) -> Tensor:
    # A select, not a slice update: outside a compiled loop TensorFlow compiles the latter once for every shape.
    beams = ops.shape(one)[2]
    is_new_L1 = ops.equal(ops.arange(ops.shape(old)[2]) // beams, position)[:, None]
    return ops.where(is_new_L1, ops.tile(one, (1, 1, ops.shape(old)[2] // beams, 1)), old)
