"""Translation probabilities of pieces, t(target | source), from pairs of sentences: IBM Model 1.

Brown et al. 1993 (The Mathematics of Statistical Machine Translation), section 4.1: each target piece is the
translation of one piece of its source, or of an empty word, all of which are equally probable a priori. The
probabilities are fitted by expectation maximization, which has one optimum.

Legend: P pairs of a source piece and a target piece of the same example, E distinct pairs, V pieces of a vocabulary.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from t2t.data.columns import ranges
from t2t.specs.constants import EOS_ID, PAD_ID

EMPTY_WORD = PAD_ID
"""Its source id."""

BLOCK_PAIRS = 2**22
"""Approximate maximum of P, the pairs in memory at a time."""

MAX_ENTRIES = 2**24
"""Maximum number of distinct pairs; beyond it, the rarest are dropped."""


class Sentences(NamedTuple):
    """Sequences of ids laid end to end."""

    ids: np.ndarray
    """(sum of lengths,) int."""
    lengths: np.ndarray
    """(sentences,) int."""


class TranslationTable(NamedTuple):
    """t(target | source) of the pairs that occur, in the order of their sources and targets."""

    keys: np.ndarray
    """(E,) int64: source * V + target, V of the target vocabulary."""
    probs: np.ndarray
    """(E,) float64."""


ReadBatches = Callable[[], Iterable[tuple[Sentences, Sentences]]]
"""Returns sources and targets, the same ones at each call; end of sequence in them is ignored."""


def fit(
    batches: ReadBatches,
    vocab_size: int,
    iterations: int,
    block_pairs: int = BLOCK_PAIRS,
    max_entries: int = MAX_ENTRIES,
) -> TranslationTable:
    """Returns the probabilities after some iterations of expectation maximization, from equal initial ones.

    Args:
        batches: examples; the number of pairs in memory at a time is bounded.
        vocab_size: V of the targets.
        iterations: at least 1.
        block_pairs: see BLOCK_PAIRS.
        max_entries: see MAX_ENTRIES.
    """

    def read_blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return _blocks(batches, vocab_size, block_pairs)

    table = _occurring_pairs(read_blocks(), max_entries)
    for _ in range(iterations):
        counts_E = np.zeros(len(table.keys))
        for keys_P, starts in read_blocks():
            counts_E += _expected_counts(table, keys_P, starts)
        sources_E = table.keys // vocab_size
        totals_E = np.bincount(sources_E, counts_E)[sources_E] if len(sources_E) else counts_E
        table = table._replace(probs=_divide(counts_E, totals_E))
    return table


def best_translations(table: TranslationTable, source_size: int, target_size: int, count: int) -> np.ndarray:
    """Returns the `count` most probable targets of each source piece, (source_size, count) int32; ties: lower id.

    Rows with fewer targets are filled with EOS_ID.
    """
    sources_E, targets_E = np.divmod(table.keys, target_size)
    order = np.lexsort((targets_E, -table.probs, sources_E))
    sources_E, targets_E = sources_E[order], targets_E[order]
    ranks_E = np.arange(len(sources_E)) - np.searchsorted(sources_E, sources_E)
    kept_E = (ranks_E < count) & (sources_E != EMPTY_WORD) & (table.probs[order] > 0)
    best = np.full((source_size, count), EOS_ID, np.int32)
    best[sources_E[kept_E], ranks_E[kept_E]] = targets_E[kept_E]
    return best


def _occurring_pairs(blocks: Iterable[tuple[np.ndarray, np.ndarray]], max_entries: int) -> TranslationTable:
    """Returns equal values for all distinct pairs, without the rarest where there are more than `max_entries`.

    Dropping while counting is lossy counting: Manku and Motwani 2002 (Approximate Frequency Counts over Data Streams).
    """
    keys_E: np.ndarray = np.zeros(0, np.int64)
    counts_E: np.ndarray = np.zeros(0)
    for keys_P, _ in blocks:
        found, times = np.unique(keys_P, return_counts=True)
        keys_E, places = np.unique(np.concatenate([keys_E, found]), return_inverse=True)
        counts_E = np.bincount(places, np.concatenate([counts_E, times]))
        while len(keys_E) > max_entries:
            kept_E = counts_E > counts_E.min()
            keys_E, counts_E = keys_E[kept_E], counts_E[kept_E]
    return TranslationTable(keys_E, np.ones(len(keys_E)))


def _expected_counts(table: TranslationTable, keys_P: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns how often each entry is expected to be the translation that was made, (E,) float64.

    A target piece counts 1, divided among the pieces of its source in proportion to their probabilities.
    """
    places_P = np.minimum(np.searchsorted(table.keys, keys_P), len(table.keys) - 1)
    probs_P = np.where(table.keys[places_P] == keys_P, table.probs[places_P], 0.0)  # 0 for dropped pairs
    totals_P = np.repeat(np.add.reduceat(probs_P, starts), np.diff(starts, append=len(keys_P)))
    return np.bincount(places_P, _divide(probs_P, totals_P), len(table.keys))


def _divide(values: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Returns values / totals, 0 where the total is 0."""
    return np.divide(values, totals, out=np.zeros_like(values), where=totals > 0)


def _blocks(batches: ReadBatches, vocab_size: int, block_pairs: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields keys of pairs, (P,) int64, those of a target piece side by side, and where each target piece starts."""
    for sources, targets in batches():
        sources, targets = _with_empty_word(_without_ends(sources)), _without_ends(targets)
        ends = np.cumsum(sources.lengths * targets.lengths)
        cuts = np.flatnonzero(np.diff(ends // block_pairs)) + 1
        for first, last in zip([0, *cuts], [*cuts, len(ends)], strict=True):
            keys_P, starts = _pairs(_slice(sources, first, last), _slice(targets, first, last), vocab_size)
            if len(keys_P):
                yield keys_P, starts


def _pairs(sources: Sentences, targets: Sentences, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    counts = np.repeat(sources.lengths, targets.lengths)  # of source pieces with each target piece
    firsts = np.repeat(np.cumsum(sources.lengths) - sources.lengths, targets.lengths)
    keys_P = sources.ids[ranges(firsts, counts)].astype(np.int64) * vocab_size + np.repeat(targets.ids, counts)
    return keys_P, np.cumsum(counts) - counts


def _slice(sentences: Sentences, first: int, last: int) -> Sentences:
    ends = np.concatenate([[0], np.cumsum(sentences.lengths)])
    return Sentences(sentences.ids[ends[first] : ends[last]], sentences.lengths[first:last])


def _without_ends(sentences: Sentences) -> Sentences:
    kept = sentences.ids != EOS_ID
    rows = np.repeat(np.arange(len(sentences.lengths)), sentences.lengths)
    return Sentences(sentences.ids[kept], np.bincount(rows[kept], minlength=len(sentences.lengths)))


def _with_empty_word(sentences: Sentences) -> Sentences:
    starts = np.cumsum(sentences.lengths) - sentences.lengths
    return Sentences(np.insert(sentences.ids, starts, EMPTY_WORD), sentences.lengths + 1)
