"""Figures of a whole split for the page: counts, lengths, and frequencies of the pieces of its vocabularies."""

from collections.abc import Callable
from typing import Any

import numpy as np

from t2t.specs.constants import EOS_ID, PAD_ID
from t2t.specs.features import FeatureKind, FeatureSpec
from t2t.studio.split_data import SplitData
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder

MOST_BARS = 60
"""Largest number of bars of a histogram."""
RARE = 5
"""A piece is rare if it occurs less often than this in the counted examples."""
_UNITS = {FeatureKind.TOKENS: "pieces, end of sequence included", FeatureKind.AUDIO: "seconds",
          FeatureKind.REAL: "vectors", FeatureKind.VIDEO: "frames"}  # fmt: skip


def split_json(split: SplitData) -> dict[str, Any]:
    """Returns the facts of a split from its manifest, and figures over its sample."""
    record, manifest = split.record, split.data.manifest
    return {
        "problem": split.problem.name,
        "split": split.split,
        "splits": list(manifest.splits),
        "examples": len(split.reader),
        "sampled": len(split.sample),
        "dropped": record.dropped,
        "repaired": record.mended,
        "repeated": record.repeated,
        "distilled": manifest.distilled is not None and split.split == "train",
        "features": [_feature_json(split, name) for name in split.columns],
        "vocabularies": [_vocabulary_json(split, index) for index in range(len(split.vocabularies))],
    }


def _feature_json(split: SplitData, name: str) -> dict[str, Any]:
    """Returns the kind of a feature, and for sequences the histogram of their lengths."""
    spec = split.reader.features[split.columns[name]]
    found: dict[str, Any] = {"name": name, "kind": spec.kind.value, "shape": list(spec.shape), "lengths": None}
    if split.reader.is_sequence(split.columns[name]):
        lengths = split.lengths(name) / _items_in_unit(spec)
        found["lengths"] = {"unit": _UNITS[spec.kind], **histogram(lengths, spec.kind == FeatureKind.AUDIO)}
    return found


def _items_in_unit(spec: FeatureSpec) -> int:
    return max(1, spec.sample_rate) if spec.kind == FeatureKind.AUDIO else 1


def histogram(lengths: np.ndarray, is_continuous: bool = False) -> dict[str, Any]:
    """Returns a histogram of lengths with at most `MOST_BARS` bars of equal width, and statistics.

    Args:
        lengths: at least one length.
        is_continuous: whether lengths may be fractions; otherwise the width of a bar is an integer.

    Returns:
        `start` of the first bar, the `width` of each, their `counts`; `mean`, `median`, `p99` and `longest`.
    """
    start, longest = float(lengths.min()), float(lengths.max())
    width = (longest - start) / MOST_BARS or 1.0
    if not is_continuous:
        width = float(-(-(longest - start + 1) // MOST_BARS))
    bars = np.minimum(((lengths - start) / width).astype(np.int64), MOST_BARS - 1)
    return {
        "start": start,
        "width": width,
        "counts": np.bincount(bars).tolist(),
        "mean": float(lengths.mean()),
        "median": float(np.median(lengths)),
        "p99": float(np.percentile(lengths, 99)),
        "longest": longest,
    }


def _vocabulary_json(split: SplitData, index: int) -> dict[str, Any]:
    encoder, features = split.vocabularies[index]
    counts, examples = split.counts[index]
    usual = _usual(encoder)
    unknown = None if encoder.unknown_id is None else int(counts[encoder.unknown_id])
    total = int(counts[usual].sum())
    return {
        "features": features,
        "kind": encoder.kind,
        "size": encoder.vocab_size,
        "examples": examples,
        "total": total,
        "unknown": unknown,
        "never": int((counts[usual] == 0).sum()),
        "rare": int(((counts[usual] > 0) & (counts[usual] < RARE)).sum()),
        "rare_below": RARE,
    }


def _usual(encoder: TextEncoder) -> np.ndarray:
    """Returns all ids except padding and end of sequence; a vocabulary of classes has neither."""
    reserved = () if isinstance(encoder, LabelEncoder) else (PAD_ID, EOS_ID)
    return np.setdiff1d(np.arange(encoder.vocab_size), reserved)


def pieces_json(split: SplitData, index: int, order: str, text: str, start: int, count: int) -> dict[str, Any]:
    """Returns some pieces of a vocabulary with their frequencies.

    Args:
        split: the split of the data.
        index: index of the vocabulary in `SplitData.vocabularies`.
        order: a key of `ORDERS`.
        text: only pieces that contain this text, ignoring case; empty for all.
        start: number of pieces to skip.
        count: largest number of pieces.
    """
    encoder, _ = split.vocabularies[index]
    counts, _ = split.counts[index]
    ids = ORDERS[order](_usual(encoder), counts)
    if text:
        ids = np.array([i for i in ids.tolist() if text.casefold() in encoder.piece(i).casefold()], np.int64)
    total = max(1, int(counts[_usual(encoder)].sum()))
    rows = [
        {"id": i, "piece": encoder.piece(i), "count": int(counts[i]), "share": int(counts[i]) / total}
        for i in ids[start : start + count].tolist()
    ]
    return {"total": len(ids), "start": start, "pieces": rows}


def _most_first(ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return ids[np.argsort(-counts[ids], kind="stable")]


def _least_first(ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return ids[np.argsort(counts[ids], kind="stable")]


ORDERS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "most frequent": _most_first, "least frequent": _least_first, "id": lambda ids, counts: ids,
}  # fmt: skip
"""Name of an order -> function that sorts the pieces."""
