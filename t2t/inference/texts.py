"""Checks the arguments of decoding functions: texts, pairs of texts, or rows of ids."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from t2t.errors import ArgumentError
from t2t.files.lines import without_surrogates


def as_texts(texts: Iterable[str], name: str = "texts") -> list[str]:
    """Returns texts as a list, halves of surrogate pairs replaced, and NULs removed, as those of files are.

    Raises:
        ArgumentError: a single text instead of several, or an item that is not text.
    """
    found = _as_list(texts, name, "a list of texts")
    for index, text in enumerate(found):
        if not isinstance(text, str):
            raise ArgumentError(f"{name}[{index}]={text!r:.60}: it is of type {type(text).__name__}; give text")
    return [without_surrogates(text).replace("\0", "") for text in found]


def as_pairs(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Returns the sources and the targets of pairs of texts.

    Raises:
        ArgumentError: an item is not a pair of texts.
    """
    sources, targets = [], []
    for index, pair in enumerate(_as_list(pairs, "pairs", "a list of pairs (source, target)")):
        if isinstance(pair, str) or not isinstance(pair, Iterable) or len(both := list(pair)) != 2:
            raise ArgumentError(f"pairs[{index}]={pair!r:.60}: it is no pair of texts; give (source, target)")
        sources.append(both[0])
        targets.append(both[1])
    return as_texts(sources, "sources"), as_texts(targets, "targets")


def check_rows(rows: Any, name: str) -> None:
    """Raises ArgumentError unless `rows` is a list of rows: lists of ids, or arrays."""
    if not isinstance(rows, Sequence | np.ndarray) or isinstance(rows, str):
        raise ArgumentError(f"{name}={rows!r:.60}: it is of type {type(rows).__name__}; give a list of lists of ids")
    for index, row in enumerate(rows):
        if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str):
            raise ArgumentError(f"{name}[{index}]={row!r:.60}: it is of type {type(row).__name__}; give a list of ids")


def check_row_pairs(sources: Any, targets: Any) -> None:
    """Raises ArgumentError unless there are as many rows of sources as of targets; see `check_rows`."""
    check_rows(sources, "sources")
    check_rows(targets, "targets")
    if len(sources) != len(targets):
        raise ArgumentError(f"{len(sources)} sources and {len(targets)} targets; give as many of both")


def _as_list(values: Any, name: str, wanted: str) -> list[Any]:
    if isinstance(values, str):
        raise ArgumentError(f"{name}={values!r:.60}: it is one text; give {wanted}, e.g. [text]")
    if not isinstance(values, Iterable):
        raise ArgumentError(f"{name}={values!r:.60}: it is of type {type(values).__name__}; give {wanted}")
    return list(values)
