"""Merges the shards of a generation: combines their records, gives files their final names, then writes the manifest.

Small files are joined. The others are linked, not moved, where the file system has links, so that merging can be
interrupted and repeated.
"""

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from t2t.data.generation.plan import GenerationPlan
from t2t.data.generation.shard_job import ShardResult, finished_shard, shard_folder
from t2t.data.generation.split_writer import join_texts
from t2t.data.generation.tally import (
    WORTH_A_WARNING,
    SampleCounts,
    check_fit,
    report_normalized,
    report_odd,
)
from t2t.data.manifest import ColumnTotals, FileRecord, Manifest, SplitPart, SplitRecord, write_manifest
from t2t.data.npy_files import MappedFiles, NpyFile, NpyHeader
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.problems.base import Problem
from t2t.problems.samples import empty_split
from t2t.specs import INPUTS, TARGETS, TRAIN
from t2t.specs.features import FeatureKind, ProblemSpec

log = logging.getLogger("t2t")

_SMALL = 16
"""Files that hold at most this part of what one may hold are joined."""

_MOST_NAMED = 5
"""Most missing shards that a message names."""


def merge_shards(plan: GenerationPlan, problem: Problem, folder: Path) -> Manifest:
    """Merges the shards into finished data, in the folder in which they were made; returns the manifest.

    Raises:
        UserError: shards are missing, a split is empty, or more than half of the training examples are unfit.
        MachineError: the disk is full, or the folder is not writable.
    """
    results = _read_results(plan, folder)
    for split in plan.order:
        check_split(problem, split, results[split])
    splits = {split: _merge_split(plan, folder, split, results[split]) for split in plan.order}
    report_sides(problem, folder, plan.spec, splits)
    manifest = plan.manifest({split: splits[split] for split in plan.shards})
    write_manifest(folder, manifest)
    return manifest


def check_split(problem: Problem, split: str, results: Sequence[ShardResult]) -> None:
    """Raises UserError if a split is empty, or most of its training examples are unfit."""
    counts = sum((result.counts for result in results), SampleCounts())
    if not counts.read:
        raise empty_split(problem, split)
    if split == TRAIN:
        check_fit(problem, counts)
        if not any(result.examples for result in results):
            raise UserError(f"split {split!r} of {problem.name} is empty{counts.describe()}", counts.cure)


def _read_results(plan: GenerationPlan, folder: Path) -> dict[str, list[ShardResult]]:
    """Returns the records of all shards by split, in order."""
    every = plan.every_shard()
    found = {shard: finished_shard(plan, folder, *shard) for shard in every}
    missing = [number for number, shard in enumerate(every) if found[shard] is None]
    if missing:
        named = [" ".join(map(str, every[number])) for number in missing[:_MOST_NAMED]]
        flags = [f"--shard={number}/{len(every)}" for number in missing[:_MOST_NAMED]]
        more = f" and {len(missing) - _MOST_NAMED:,} more" if len(missing) > _MOST_NAMED else ""
        raise UserError(
            f"{len(missing):,} of the {len(every):,} shards of {plan.identity.problem} are not made yet: "
            f"{', '.join(named)}{more}",
            f"make them with the same flags and {', '.join(flags)}{more}, or all that are missing here without "
            "--shard and --merge",
        )
    return {
        split: [result for shard in every if shard[0] == split and (result := found[shard])] for split in plan.order
    }


def _merge_split(plan: GenerationPlan, folder: Path, split: str, results: Sequence[ShardResult]) -> SplitRecord:
    counts = sum((result.counts for result in results), SampleCounts())
    examples = sum(result.examples for result in results)
    columns = _merge_columns(results)
    log.info("%s: %s examples written%s", split, f"{examples:,}", counts.describe())
    _report_unknown(split, counts.unknown, columns, examples)
    report_normalized(split, counts.normalized, examples)
    report_odd(split, counts)
    return SplitRecord(
        examples=examples,
        columns=columns,
        shards=_merge_files(plan, folder, split, results),
        dropped=counts.dropped,
        mended=counts.repaired,
        texts=_merge_texts(folder, split, results, examples),
        unknown=counts.unknown,
        normalized=counts.normalized,
        repeated=counts.repeated,
    )


def _merge_columns(results: Sequence[ShardResult]) -> dict[str, ColumnTotals]:
    return {
        name: ColumnTotals(
            items=sum(result.columns[name].items for result in results),
            longest=max(result.columns[name].longest for result in results),
        )
        for name in results[0].columns
    }


def _merge_files(plan: GenerationPlan, folder: Path, split: str, results: Sequence[ShardResult]) -> list[SplitPart]:
    """Gives the files of all shards their final names, numbered consecutively, and returns their records.

    Of small files, neighbours are joined: a corpus of thousands of files would else have thousands in each feature.
    """
    parts = [_PartFiles(shard_folder(folder, split, result.shard), part) for result in results for part in result.files]
    groups = _neighbours(parts, plan)
    merged = []
    for number, group in enumerate(groups):
        stem = folder / f"{split}-{number:05d}-of-{len(groups):05d}"
        made: dict[str, dict[str, FileRecord]] = {"values": {}, "offsets": {}}
        for name in group[0].record.values:
            for kind, records in made.items():
                paths = [part.folder / getattr(part.record, kind)[name].name for part in group]
                path = stem.with_name(f"{stem.name}.{name}.{kind}.npy")
                if len(group) == 1:
                    _link(paths[0], path)
                    records[name] = dataclasses.replace(getattr(group[0].record, kind)[name], name=path.name)
                else:
                    records[name] = _join(paths, path, are_offsets=kind == "offsets")
        merged.append(SplitPart(examples=sum(part.record.examples for part in group), **made))
    return merged


class _PartFiles(NamedTuple):
    """The files of consecutive examples of a shard, and their folder."""

    folder: Path
    record: SplitPart


def _neighbours(parts: Sequence[_PartFiles], plan: GenerationPlan) -> list[list[_PartFiles]]:
    """Groups neighbouring small parts, as many as one file may hold; any other part is a group of its own."""
    most = plan.identity.most_examples, plan.identity.most_bytes
    groups: list[list[_PartFiles]] = []
    room = (0, 0)  # in the last group, for examples and bytes
    for part in parts:
        takes = part.record.examples, sum(file.bytes for file in part.record.values.values())
        is_small = all(_SMALL * one <= limit for one, limit in zip(takes, most, strict=True))
        if is_small and all(one <= left for one, left in zip(takes, room, strict=True)):
            groups[-1].append(part)
        else:
            groups.append([part])
            room = most if is_small else (0, 0)
        room = room[0] - takes[0], room[1] - takes[1]
    return groups


def _join(parts: Sequence[Path], path: Path, are_offsets: bool) -> FileRecord:
    """Writes the arrays of some files one behind the other; offsets go on where those of the file before end."""
    first = NpyHeader.read(parts[0])
    with os_errors_as_machine_errors(f"cannot write {path}"):
        path.unlink(missing_ok=True)  # it may be another name of a shard's file
        joined = NpyFile(path, first.dtype, first.shape[1:])
        try:
            end = 0
            for number, part in enumerate(parts):
                array = MappedFiles([NpyHeader.read(part)])[0]
                if are_offsets:
                    joined.append(array[min(number, 1) :] + end)
                    end += int(array[-1])
                else:
                    joined.append(array)
            return joined.close()
        finally:
            joined.abandon()


def _link(path: Path, name: Path) -> None:
    """Gives a file a second name; renames it if the file system has no links."""
    with os_errors_as_machine_errors(f"cannot write {name}"):
        name.unlink(missing_ok=True)
        try:
            os.link(path, name)
        except OSError:
            os.replace(path, name)


def _merge_texts(folder: Path, split: str, results: Sequence[ShardResult], examples: int) -> dict[str, FileRecord]:
    """Joins the texts of each feature for which some ids do not decode to the text, if every example has a text."""
    merged = {}
    for name in dict.fromkeys(name for result in results for name in result.texts):
        records = [(result, result.texts[name]) for result in results if name in result.texts]
        if any(text.altered for _, text in records) and sum(text.lines for _, text in records) == examples:
            parts = [shard_folder(folder, split, result.shard) / text.file.name for result, text in records]
            merged[name] = join_texts(parts, folder / parts[0].name)
    return merged


def _report_unknown(split: str, unknown: Mapping[str, int], columns: Mapping[str, ColumnTotals], examples: int) -> None:
    """Logs the share of unknown ids by feature; warns if there are many."""
    for name, count in sorted(unknown.items()):
        share = count / max(columns[name].items - examples, 1)  # the end of sequence of each example does not count
        found = f"{split}: {share:.2%} of the ids of {name} ({count:,}) stand for unknown words"
        if share < WORTH_A_WARNING:
            log.info("%s", found)
        else:
            log.warning(
                "%s, which a model cannot distinguish or write; raise --vocab_size, or choose a --vocab_kind that "
                "spells every word (sentencepiece, subword, byte)", found,
            )  # fmt: skip


_MOST_IDS = 1_000_000
"""Ids of a side that are looked at, the first ones."""
_SAME = 0.9
"""Share of translations that equal their source at which generation warns."""
_CLEARLY = 0.5
"""By how many nats an id must be more probable on the other side."""


def report_sides(problem: Problem, folder: Path, spec: ProblemSpec, splits: Mapping[str, SplitRecord]) -> None:
    """Warns of translations that equal their sources, and of splits whose sides seem to be swapped."""
    inputs, targets = spec.features.get(INPUTS), spec.features.get(TARGETS)
    if not spec.shared_vocabulary or inputs is None or targets is None or targets.kind != FeatureKind.TOKENS:
        return
    of_train: list[np.ndarray] = []
    for split in sorted(splits, key=lambda split: split != TRAIN):
        rows = [_first_rows(folder, splits[split], name) for name in (INPUTS, TARGETS)]
        same = np.mean([np.array_equal(*pair) for pair in zip(*rows, strict=False)] or [False])
        if same >= _SAME and getattr(problem, "translates", False):
            log.warning(
                "%s: %.1f%% of the targets equal their inputs; if the same file was given for both sides, correct that",
                split, 100 * same,
            )  # fmt: skip
        counts = [np.bincount(np.concatenate(side), minlength=inputs.vocab_size) for side in rows if side]
        if split == TRAIN:
            of_train = counts
        elif len(counts) == len(of_train) == 2 and (gain := min(_gains(counts, of_train))) > _CLEARLY:
            log.warning(
                "%s: its inputs look like the targets of %s, and its targets like the inputs there (an id is %.1f nats "
                "more probable); if source and target are swapped, correct that", split, TRAIN, gain,
            )  # fmt: skip


def _gains(counts: list[np.ndarray], of_train: list[np.ndarray]) -> list[float]:
    """Returns for each side by how much its ids are more probable on the other side of the training split, in nats."""
    log_probs = [np.log((side + 1) / (side + 1).sum()) for side in of_train]
    return [
        float(counts[side] @ (log_probs[1 - side] - log_probs[side])) / max(1, int(counts[side].sum()))
        for side in (0, 1)
    ]


def _first_rows(folder: Path, record: SplitRecord, name: str) -> list[np.ndarray]:
    """Returns the ids of the first examples of a side."""
    part = record.shards[0]
    offsets = np.load(folder / part.offsets[name].name, mmap_mode="r")
    rows = int(np.searchsorted(offsets, _MOST_IDS, side="right")) - 1
    ends = np.array(offsets[: rows + 1])
    values = np.load(folder / part.values[name].name, mmap_mode="r")[: ends[-1]]
    return np.split(np.array(values), ends[1:-1]) if rows > 0 else []
