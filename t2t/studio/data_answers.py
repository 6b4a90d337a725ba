"""Responses of the data page, which need no model.

Figures of a whole split (counts, lengths, frequencies of pieces), and its examples with their padding, pictures and
sounds.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from t2t.data.reading.batching import Batch
from t2t.data.reading.reader import lengths_of
from t2t.errors import UserError
from t2t.problems.base import feature_of
from t2t.specs import EOS_ID, PAD_ID, TARGETS, TRAIN
from t2t.specs.features import FeatureKind
from t2t.studio.media import media_of, output_media
from t2t.studio.run_answers import query_int
from t2t.studio.split_data import SplitData
from t2t.studio.studio import Studio
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder

MOST_EXAMPLES, MOST_PIECES = 50, 200
"""Largest numbers in a response."""
_LAST = 10**15
"""Largest start index of a request."""


def data_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns figures of a split of a run's data."""
    run = studio.runs.run(data.get("run"))
    return {"problems": list(run.record.problems), **split_json(_split(studio, data))}


def data_examples_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns some examples of a split; with `text`, only those that contain it."""
    start, count = query_int(data, "start", 0, 0, _LAST), query_int(data, "count", 20, 1, MOST_EXAMPLES)
    return examples_json(_split(studio, data), start, count, str(data.get("text", "")))


def data_pieces_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns some pieces of a vocabulary."""
    split = _split(studio, data)
    start, count = query_int(data, "start", 0, 0, _LAST), query_int(data, "count", 50, 1, MOST_PIECES)
    index = query_int(data, "vocabulary", 0, 0, max(0, len(split.vocabularies) - 1))
    order = data.get("order", next(iter(ORDERS)))
    if order not in ORDERS:
        raise UserError(f"order {order!r}: it is not known", f"ask for one of {', '.join(ORDERS)}")
    if not split.vocabularies:
        raise UserError(f"{split.problem.name}: no feature has a vocabulary", "see another problem")
    return pieces_json(split, index, order, str(data.get("text", "")), start, count)


def _split(studio: Studio, data: Mapping[str, Any]) -> SplitData:
    return studio.data(data.get("run"), data.get("problem", ""), data.get("split", TRAIN))


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
        is_audio = spec.kind == FeatureKind.AUDIO
        lengths = split.lengths(name) / (max(1, spec.sample_rate) if is_audio else 1)
        found["lengths"] = {"unit": _UNITS[spec.kind], **histogram(lengths, is_audio)}
    return found


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


ORDERS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "most frequent": lambda ids, counts: ids[np.argsort(-counts[ids], kind="stable")],
    "least frequent": lambda ids, counts: ids[np.argsort(counts[ids], kind="stable")],
    "id": lambda ids, counts: ids,
}
"""Name of an order -> function that sorts the pieces."""


MOST_SHOWN = 300
"""Pieces of a sequence that are shown."""
MOST_CHARACTERS = 5_000
"""Characters of a text that are shown."""


class SearchLimits(NamedTuple):
    """Limits on what one request searches."""

    examples: int = 20_000
    """Largest number of examples."""
    ids: int = 2_000_000
    """Approximate largest number of ids."""
    block: int = 500
    """Examples read at a time."""


USUAL_LIMITS = SearchLimits()


def examples_json(
    split: SplitData, start: int, count: int, text: str = "", limits: SearchLimits = USUAL_LIMITS
) -> dict[str, Any]:
    """Returns up to `count` examples from index `start` on; with `text`, those that contain it, ignoring case.

    Returns:
        `total`, the size of the split; `examples`; `searched`, how many were searched; `next`, the index to continue
        from, null at the end; `no_batches`, why no padding is shown.
    """
    if text:
        found, end = _search(split, start, count, text.casefold(), limits)
    else:
        end = min(start + count, len(split.reader))
        found = np.arange(start, end)
    batches = split.batches.batches_with(found) if split.batches is not None and len(found) else [None] * len(found)
    return {
        "total": len(split.reader),
        "examples": [_example(split, int(n), batch) for n, batch in zip(found, batches, strict=True)],
        "searched": max(0, end - start),
        "next": end if end < len(split.reader) else None,
        "no_batches": split.no_batches,
    }


def _search(split: SplitData, start: int, count: int, text: str, limits: SearchLimits) -> tuple[np.ndarray, int]:
    """Returns the indices of examples that contain `text`, casefolded, and the index at which the search ended."""
    found: list[int] = []
    ids = 0
    last = min(start + limits.examples, len(split.reader))
    for block in range(start, last, limits.block):
        numbers = np.arange(block, min(block + limits.block, last))
        columns = [list(_texts(split, name, numbers)) for name in split.columns if split.is_text(name)]
        for number, texts in zip(numbers.tolist(), zip(*columns, strict=True), strict=False):
            if any(text in one.casefold() for one in texts):
                found.append(number)
                if len(found) == count:
                    return np.array(found), number + 1
        ids += sum(
            int(split.reader.lengths(split.columns[name], numbers).sum())
            for name in split.columns
            if split.is_text(name)
        )
        if ids > limits.ids:
            return np.array(found, np.int64), int(numbers[-1]) + 1
    return np.array(found, np.int64), last


def _texts(split: SplitData, feature: str, numbers: np.ndarray) -> Iterator[str]:
    encoder = split.problem.encoders[feature]
    values, lengths = split.ids(feature, numbers)
    for ids in np.split(values, np.cumsum(lengths)[:-1]):
        yield encoder.decode(ids.tolist())


def _example(split: SplitData, number: int, batch: Batch | None) -> dict[str, Any]:
    return {
        "number": number,
        "features": [_feature(split, name, number, batch) for name in split.columns],
        "batch": _batch(split, batch),
    }


def _feature(split: SplitData, name: str, number: int, batch: Batch | None) -> dict[str, Any]:
    stored, reader = split.columns[name], split.reader
    spec = reader.features[stored]
    values, _ = reader.read(np.array([number]), stored)
    found: dict[str, Any] = {"name": name, "kind": spec.kind.value, "shape": list(spec.shape)}
    if reader.is_sequence(stored):
        found["length"] = len(values)
        if batch is not None and name in batch.widths:
            own = int(lengths_of(reader, stored, np.array([number]))[0])
            found |= {"padded": max(0, batch.widths[name] - own), "cut": max(0, own - batch.widths[name])}
    if spec.kind == FeatureKind.AUDIO:
        found["seconds"] = len(values) / spec.sample_rate
    if split.is_text(name):
        split.ids(name, np.array([number]))  # raises for ids outside the vocabulary
        found |= _text(split, name, values.tolist())
    whole = values if reader.is_sequence(stored) else values[0]
    found["media"] = media_of(whole, spec) or (output_media(split.problem, found["text"]) if name == TARGETS else None)
    if "text" in found:
        found["text"] = found["text"][:MOST_CHARACTERS]
    return found


def _text(split: SplitData, name: str, ids: list[int]) -> dict[str, Any]:
    encoder = split.problem.encoders[name]
    is_written = name == TARGETS and feature_of(split.problem, TARGETS).output_suffix
    text = split.problem.decode_target(ids) if is_written else encoder.decode(ids)
    shown = ids[:MOST_SHOWN]
    return {
        "text": text,
        "pieces": [encoder.piece(one) for one in shown],
        "unknown": [index for index, one in enumerate(shown) if one == encoder.unknown_id],
        "more": len(ids) - len(shown),
    }


def _batch(split: SplitData, batch: Batch | None) -> dict[str, Any] | None:
    """Returns the number of rows of a batch, and by feature its width and its share of padding."""
    if batch is None:
        return None
    rows = batch.rows or len(batch.indices)
    padding = {}
    for name, width in batch.widths.items():
        lengths = np.minimum(lengths_of(split.reader, split.columns[name], batch.indices), width)
        padding[name] = 1 - int(lengths.sum()) / (rows * width)
    return {"rows": rows, "examples": len(batch.indices), "widths": batch.widths, "padding": padding}
