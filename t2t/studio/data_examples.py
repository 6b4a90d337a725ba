"""Examples of a split for the page: pieces, lengths, padding, pictures and sounds; and searching for examples."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from t2t.data.reading.batching import Batch
from t2t.data.reading.reader import lengths_of
from t2t.problems.base import feature_of
from t2t.specs.constants import TARGETS
from t2t.specs.features import FeatureKind
from t2t.studio.media import media_of, output_media
from t2t.studio.split_data import SplitData

MOST_PIECES = 300
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
    shown = ids[:MOST_PIECES]
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
