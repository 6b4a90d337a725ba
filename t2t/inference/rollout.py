"""Attention rollout: how much each input piece contributes to each position of a layer.

Each position of a layer mixes the positions of the layer below: half is the position itself (the residual connection),
half is what it attends to, averaged over the heads. Multiplied from the lowest layer up, these mixes give the share of
each input piece in a position (Abnar and Zuidema 2020, arXiv:2005.00928, section 3). A decoder layer has a second such
step, for its attention to the encoder's output. Other ways of mixing positions, such as convolution, are not counted.

Legend: L layers, Q queries, K keys, T target length, S source length.
"""

from collections.abc import Mapping

import numpy as np

from t2t.inference.attention import DECODER, ENCODER, ENCODER_DECODER, AttentionMap


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
        elif encoder is not None and _fits(decoder, cross, encoder):
            found[DECODER], found[ENCODER_DECODER] = _decoder_rollout(decoder, cross, encoder[-1])
    return {kind: rolled_LQK[:, None] for kind, rolled_LQK in found.items()}


def _is_square(seen: AttentionMap | None) -> bool:
    return seen is not None and seen.weights.shape[2] == seen.weights.shape[3]


def _fits(decoder: AttentionMap, cross: AttentionMap, encoder: np.ndarray) -> bool:
    """Returns whether each decoder layer attends to the decoder and to the positions of the encoder's output."""
    same_layers = decoder.weights.shape[0] == cross.weights.shape[0]
    return same_layers and cross.weights.shape[2:] == (decoder.weights.shape[2], encoder.shape[-1])


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
