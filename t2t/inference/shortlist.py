"""Lexical shortlists: which target pieces a search considers for a source; learned by IBM Model 1. Loads no TensorFlow.

A shortlist has the most frequent pieces, and the most probable translations of each source piece: Jean et al. 2015
(arXiv:1412.2007), section 3.3; compared with other methods by L'Hostis et al. 2016 (arXiv:1610.00072).

The translation probabilities of pieces, t(target | source), are those of IBM Model 1: Brown et al. 1993 (The
Mathematics of Statistical Machine Translation), section 4.1. Each target piece is the translation of one piece of its
source, or of an empty word, all of which are equally probable a priori. They are fitted by expectation maximization,
which has one optimum.

Legend: B sentences, S source length, F frequent pieces, K translations of a piece, P pairs of a source piece and a
target piece of the same example, E distinct pairs, V pieces of a vocabulary.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from t2t.checkpoints.arrays import parse_arrays, write_arrays
from t2t.checkpoints.layout import NamedFolders
from t2t.checkpoints.run_dir import RunDir
from t2t.data.columns import ranges
from t2t.errors import UserError, one_line
from t2t.files.atomic import fsync_dir, fsync_file, os_errors_as_machine_errors, sha256_of
from t2t.files.remote.mirror import fetch
from t2t.files.trust import check_inside, read_record, read_sealed, sealed
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec

FORMAT = 1

RECORD, ARRAYS = "shortlist.json", "shortlist.safetensors"


@dataclasses.dataclass(frozen=True)
class Shortlist:
    """The candidate target pieces of every source piece."""

    frequent: np.ndarray
    """(F,) int32: candidates for every source."""
    translations: np.ndarray
    """(source vocabulary, K) int32: further candidates if a piece is in the source."""
    target_size: int
    """V."""
    fingerprint: str = ""
    """sha256 of the file it was read from."""

    def candidates(self, ids_BS: np.ndarray) -> np.ndarray:
        """Returns the candidates for each source, (B, V) bool; the rows `ids_BS` are zero padded.

        Padding and end of sequence are always candidates.
        """
        candidates_BV = np.zeros((len(ids_BS), self.target_size), bool)
        candidates_BV[:, [PAD_ID, EOS_ID]] = True
        candidates_BV[:, self.frequent] = True
        rows_B1 = np.arange(len(ids_BS))[:, None]
        translations_BSK = np.where((ids_BS == PAD_ID)[..., None], EOS_ID, self.translations[ids_BS])
        candidates_BV[rows_B1, translations_BSK.reshape(len(ids_BS), -1)] = True
        return candidates_BV


@dataclasses.dataclass(frozen=True)
class _Record:
    """The record of a stored shortlist."""

    format: int
    vocabularies: dict[str, str]
    """Fingerprint of the vocabulary of each feature."""
    examples: int
    """How many it was learned from."""
    checksum: str
    """sha256 of its arrays."""


def write_shortlist(run: RunDir, problem: str, shortlist: Shortlist, examples: int) -> Path:
    """Writes the shortlist of one of a run's problems, replacing an earlier one; returns its folder.

    Raises:
        MachineError: it cannot be written; the earlier one is unchanged.
    """
    folders = _folders(run)

    def fill(folder: Path) -> None:
        folder.mkdir()
        write_arrays(folder / ARRAYS, {"frequent": shortlist.frequent, "translations": shortlist.translations})
        record = _Record(FORMAT, _fingerprints(run, problem), examples, sha256_of(folder / ARRAYS))
        (folder / RECORD).write_text(json.dumps(sealed(RECORD, dataclasses.asdict(record))), encoding="utf-8")
        for path in folder.iterdir():
            fsync_file(path)
        fsync_dir(folder)

    with os_errors_as_machine_errors(f"cannot write a shortlist in {folders.root}"):
        folders.write(problem, problem, fill)
    return folders.path(problem)


def read_shortlist(run: RunDir, problem: str) -> Shortlist:
    """Reads the shortlist of one of a run's problems.

    Raises:
        UserError: there is none, it is damaged, or it was learned for other vocabularies.
        MachineError: it cannot be read.
    """
    folder, spec = _folders(run).path(problem), text_spec(run, problem)
    learn = f"t2t-shortlist --output_dir={run.path}"
    with os_errors_as_machine_errors(f"cannot read {folder}"):
        fetch(folder / RECORD, folder / ARRAYS)
    for name in (RECORD, ARRAYS):
        check_inside(run.path, folder / name)
    if not (folder / RECORD).is_file():
        raise UserError(f"shortlist=True: {run.path} has no shortlist of {problem}", f"learn it with {learn}")
    try:
        with os_errors_as_machine_errors(f"cannot read {folder}"):
            record = read_record(_Record, read_sealed(folder / RECORD))
            if record.format > FORMAT:
                raise ValueError(f"it has format {record.format}, this version of t2t reads formats up to {FORMAT}")
            content = (folder / ARRAYS).read_bytes()
        for feature, own in _fingerprints(run, problem).items():
            if (found := record.vocabularies.get(feature, "none")) != own:
                raise UserError(
                    f"the shortlist in {folder} was learned for another vocabulary of {feature}: fingerprint "
                    f"{found[:12]}, the run has {own[:12]}",
                    f"learn it again with {learn}",
                )
        if hashlib.sha256(content).hexdigest() != record.checksum:
            raise ValueError(f"{ARRAYS} is not what was written")
        return _parse(content, spec, record.checksum)
    except ValueError as error:
        raise UserError(
            f"the shortlist in {folder} is damaged ({one_line(error)})", f"learn it again with {learn}"
        ) from error


def text_spec(run: RunDir, problem: str) -> ProblemSpec:
    """Returns the spec of one of a run's problems; raises UserError unless inputs and targets are text."""
    spec = run.record.for_problem(problem).spec
    kinds = [feature.kind if feature else "absent" for feature in (spec.inputs, spec.targets)]
    if kinds != [FeatureKind.TOKENS] * 2:
        raise UserError(
            f"a shortlist of {problem}: its inputs are {kinds[0]}, its targets {kinds[1]}",
            "there are shortlists of problems from text to text",
        )
    return spec


def _folders(run: RunDir) -> NamedFolders:
    return NamedFolders(run.shortlist_folder, lambda name: True, RECORD)


def _fingerprints(run: RunDir, problem: str) -> dict[str, str]:
    vocabularies = run.record.for_problem(problem).vocabularies
    return {feature: vocabulary.fingerprint for feature, vocabulary in vocabularies.items()}


def _parse(content: bytes, spec: ProblemSpec, checksum: str) -> Shortlist:
    """Returns the shortlist of a file; raises ValueError if its arrays do not fit the features."""
    arrays = parse_arrays(content)
    rows, size = (spec.features[name].vocab_size for name in (INPUTS, TARGETS))
    for name, axes in (("frequent", 1), ("translations", 2)):
        array = arrays.get(name)
        if array is None or array.ndim != axes or array.dtype != np.int32:
            raise ValueError(f"it has no {name} of {axes} axes, int32")
        if array.size and not 0 <= array.min() <= array.max() < size:
            raise ValueError(f"{name} holds ids outside of the vocabulary")
    if len(arrays["translations"]) != rows:
        raise ValueError(f"translations has {len(arrays['translations'])} rows for a vocabulary of {rows}")
    return Shortlist(arrays["frequent"], arrays["translations"], size, checksum)


# === Learning one ===

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
