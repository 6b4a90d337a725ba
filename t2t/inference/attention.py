"""Attention weights of one input and one output, and what they say that each input piece contributes (rollout).

The layers of the model run once on the whole output, which gives the same weights as decoding step by step.

Rollout: each position of a layer mixes the positions of the layer below: half is the position itself (the residual
connection), half is what it attends to, averaged over the heads. Multiplied from the lowest layer up, these mixes give
the share of each input piece in a position (Abnar and Zuidema 2020, arXiv:2005.00928, section 3). A decoder layer has a
second such step, for its attention to the encoder's output. Other ways of mixing positions, such as convolution, are
not counted.

Legend: B batch, S source length, T target length, L layers, H heads, Q queries, K keys.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from keras import KerasTensor, ops

from t2t.backends import backend
from t2t.backends.base import inputs_signature
from t2t.errors import UserError
from t2t.inference.rows import Row, padded
from t2t.layers.masks import looks_at_source
from t2t.layers.mode import Record, in_mode
from t2t.models.base import SequenceModel
from t2t.models.ensemble import Ensemble
from t2t.specs import INPUTS, TARGETS
from t2t.text.encoder import TextEncoder

ENCODER, DECODER, ENCODER_DECODER = "encoder", "decoder", "encoder_decoder"
"""Self-attention of the inputs, self-attention of the output, attention from the output to the inputs."""

START = "<start>"
"""Label of the position before the first piece of an output."""


class NoAttentionError(UserError):
    """A model without attention weights that belong to an output."""


@dataclasses.dataclass(frozen=True)
class AttentionMap:
    """One kind of attention in every layer that has it."""

    queries: tuple[str, ...]
    """Q pieces: those of the input, or, in a decoder, the piece that each position writes."""
    keys: tuple[str, ...]
    """K pieces that are attended to: those of the input, or those written before, `START` first."""
    layers: tuple[str, ...]
    """L paths of the layers, the lowest first."""
    weights: np.ndarray
    """(L, H, Q, K) float32; the weights of a query sum to 1 over the keys. H is the largest number of heads of a
    layer; in layers with fewer, the missing heads hold the mean of the others."""


@dataclasses.dataclass(frozen=True)
class Attention:
    """The attention weights of one input and its output."""

    source: str
    target: str
    ids: tuple[int, ...]
    """Of the target, end of sequence included where it has one."""
    maps: Mapping[str, AttentionMap]
    """By kind, `encoder`, `decoder` and `encoder_decoder`, those that the model has."""


def attention_maps(
    model: SequenceModel, source: Row, target: Sequence[int], encoders: Mapping[str, TextEncoder]
) -> dict[str, AttentionMap]:
    """Returns the weights of a model's attentions by kind.

    Args:
        model: with its weights.
        source: its input, with end of sequence where it is text.
        target: ids of the output, with end of sequence; ignored by models that are not autoregressive.
        encoders: vocabularies of the features, for the pieces; positions of other features are numbered from 1.

    Raises:
        NoAttentionError: the model has none.
    """
    if isinstance(model, Ensemble):
        raise NoAttentionError(
            f"attention of an ensemble of {len(model.members)} runs: each has its own", "look at one of the runs"
        )
    if model.mask_predicts:
        raise NoAttentionError(
            f"attention of {type(model).__name__}: it predicts the words of an output several times, each time with "
            "other weights",
            "choose a run of a Transformer",
        )
    found = AttentionPass(model)(padded([source]), padded([target]))
    if not found:
        raise NoAttentionError(
            f"model {model.registered_name()}: none of its layers attends, so that there is nothing to look at",
            "choose a run of a Transformer or of another model with attention",
        )
    written = _pieces(encoders.get(TARGETS), target)
    labels = {
        ENCODER: (_pieces(encoders.get(INPUTS), source),) * 2,
        DECODER: (written, (START, *written[:-1])),
        ENCODER_DECODER: (written, _pieces(encoders.get(INPUTS), source)),
    }
    by_kind = {kind: of_kind(found, kind) for kind in labels}
    return {kind: _map_of(weights, *labels[kind]) for kind, weights in by_kind.items() if weights}


class AttentionPass:
    """Runs a model once on whole outputs for its attention weights."""

    def __init__(self, model: SequenceModel):
        self._model = model
        self._run: Callable[[dict[str, Any]], list[Any]] = self._weights
        self._paths: list[str] = []
        self._has_steps = False

    def compile(self) -> None:
        """Compiles it for many calls, if it has been called once and no recurrent decoder attends step by step."""
        if self._has_steps:  # in a loop, out of which a compiled function can return nothing
            return
        signature = {INPUTS: inputs_signature(self._model)} if self._model.spec.inputs else {}
        if self._model.autoregressive:
            signature[TARGETS] = KerasTensor([None, None], "int32")
        self._run = backend().compile(self._weights, [signature], self._model)

    def __call__(self, inputs: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the weights of every attention, (B, H, Q, K), by path of the layer.

        `inputs` are (B, S), `targets` (B, T); each is left out if the model does not read it. Where it is compiled, Q
        and K have padding.
        """
        features = {INPUTS: inputs} if self._model.spec.inputs else {}
        if self._model.autoregressive:
            features[TARGETS] = targets
        found = self._run(features)
        return {path: ops.convert_to_numpy(weights) for path, weights in zip(self._paths, found, strict=True)}

    def _weights(self, features: Mapping[str, Any]) -> list[Any]:
        record: Record = {}
        with in_mode(record=record):
            self._model.body({name: ops.convert_to_tensor(values) for name, values in features.items()})
        # A recurrent decoder records one part for each position.
        self._has_steps = any(len(parts) > 1 for parts in record.values())
        self._paths = list(record)
        return [ops.concatenate(parts, axis=2) for parts in record.values()]


def of_kind(weights: Mapping[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    """Returns the weights of one kind of attention, by path of the layer, such as model/encoder/.../self_attention."""

    def kind_of(path: str) -> str:
        return ENCODER_DECODER if looks_at_source(path) else ENCODER if "/encoder/" in path else DECODER

    return {path: one for path, one in weights.items() if kind_of(path) == kind}


def _map_of(weights: dict[str, np.ndarray], queries: tuple[str, ...], keys: tuple[str, ...]) -> AttentionMap:
    """Returns the map of a kind; the heads of a layer with fewer than others are filled up with their mean."""
    layers = [weights_BHQK[0] for weights_BHQK in weights.values()]
    most, filled = max(map(len, layers)), []
    for weights_HQK in layers:
        mean_1QK = weights_HQK.mean(axis=0, keepdims=True)
        filled.append(np.concatenate([weights_HQK, np.repeat(mean_1QK, most - len(weights_HQK), axis=0)]))
    weights_LHQK = np.stack(filled)
    count, of_keys = weights_LHQK.shape[2:]
    return AttentionMap(_labels(queries, count), _labels(keys, of_keys), tuple(weights), weights_LHQK)


def _labels(pieces: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Returns the pieces, or numbers from 1 if there are none or the model has fewer positions than pieces."""
    return pieces if len(pieces) == count else tuple(map(str, range(1, count + 1)))


def _pieces(encoder: TextEncoder | None, row: Row) -> tuple[str, ...]:
    if encoder is None or isinstance(row, np.ndarray):
        return ()
    return tuple(encoder.piece(token) for token in row)


def attention_rollout(maps: Mapping[str, AttentionMap]) -> dict[str, np.ndarray]:
    """Returns by kind of attention the rollout up to each of its layers, (L, 1, Q, K) float64, from 0 to 1.

    Each row of `encoder` sums to 1, and each row of `decoder` together with the same row of `encoder_decoder`. A kind
    is left out if the positions of its layers do not correspond one to one.
    """
    encoder = _self_rollout(maps[ENCODER]) if _is_square(maps.get(ENCODER)) else None
    found = {} if encoder is None else {ENCODER: encoder}
    decoder, cross = maps.get(DECODER), maps.get(ENCODER_DECODER)
    if decoder is not None and _is_square(decoder):
        if cross is None:
            found[DECODER] = _self_rollout(decoder)
        elif (
            encoder is not None  # each layer attends to the decoder, and to the positions of the encoder's output
            and decoder.weights.shape[0] == cross.weights.shape[0]
            and cross.weights.shape[2:] == (decoder.weights.shape[2], encoder.shape[-1])
        ):
            found[DECODER], found[ENCODER_DECODER] = _decoder_rollout(decoder, cross, encoder[-1])
    return {kind: rolled_LQK[:, None] for kind, rolled_LQK in found.items()}


def _is_square(seen: AttentionMap | None) -> bool:
    return seen is not None and seen.weights.shape[2] == seen.weights.shape[3]


def _self_rollout(seen: AttentionMap) -> np.ndarray:
    """Returns the rollout of layers of self-attention, (L, T, T)."""
    rolled_TT = np.eye(seen.weights.shape[-1])
    layers = []
    for mean_TT in seen.weights.mean(axis=1, dtype=np.float64):
        rolled_TT = (rolled_TT + mean_TT @ rolled_TT) / 2
        layers.append(rolled_TT)
    return np.stack(layers)


def _decoder_rollout(
    decoder: AttentionMap, cross: AttentionMap, encoder_SS: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the shares of the pieces written before, (L, T, T), and of the input, (L, T, S), after each layer."""
    written_TT, read_TS = np.eye(decoder.weights.shape[-1]), np.zeros(cross.weights.shape[2:])
    layers = []
    means = (seen.weights.mean(axis=1, dtype=np.float64) for seen in (decoder, cross))
    for own_TT, other_TS in zip(*means, strict=True):
        written_TT, read_TS = (written_TT + own_TT @ written_TT) / 2, (read_TS + own_TT @ read_TS) / 2
        written_TT, read_TS = written_TT / 2, (read_TS + other_TS @ encoder_SS) / 2
        layers.append((written_TT, read_TS))
    written_LTT, read_LTS = (np.stack(shares) for shares in zip(*layers, strict=True))
    return written_LTT, read_LTS


SQUARES = 8
"""Number of squares side by side that cover the longer side."""
SMALL = 64
"""Longest side, in pixels, of images over which the square moves by half its side; over larger ones by all of it."""

Score = Callable[[Sequence[np.ndarray]], Sequence[float]]
"""Returns the log-probability of the output for each image, (H, W, C) uint8."""


def occlusion_map(image: np.ndarray, score: Score) -> tuple[np.ndarray, int]:
    """Returns how much the log-probability of an output falls when each part of an image is covered.

    Args:
        image: (H, W, C) uint8.
        score: see `Score`.

    Returns:
        (R, K) float64, for each cell the mean over the squares that cover it, negative if the output becomes more
        probable; and the side of a cell in pixels. The image's edge may cut the last cells.
    """
    height, width = image.shape[:2]
    side = max(1, -(-max(height, width) // SQUARES))
    cell = max(1, side // 2) if max(height, width) <= SMALL else side
    side = cell * max(1, side // cell)
    grey = image.mean(axis=(0, 1)).round().astype(np.uint8)
    rows, columns = -(-height // cell), -(-width // cell)
    per_side = side // cell
    places = [
        (row, column) for row in range(max(1, rows - per_side + 1)) for column in range(max(1, columns - per_side + 1))
    ]
    covered = []
    for row, column in places:
        changed = image.copy()
        changed[row * cell : row * cell + side, column * cell : column * cell + side] = grey
        covered.append(changed)
    whole, *scores = score([image, *covered])
    sums, counts = np.zeros((rows, columns)), np.zeros((rows, columns))
    for (row, column), found in zip(places, scores, strict=True):
        cells = slice(row, row + per_side), slice(column, column + per_side)
        sums[cells] += whole - found
        counts[cells] += 1
    return sums / counts, cell
