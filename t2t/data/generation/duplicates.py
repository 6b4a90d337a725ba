"""Finds duplicates among the training samples of a corpus that is larger than memory.

Every shard first writes a digest of each sample that the other filters keep, grouped by the digest's first byte
(`digest_shard`). Then the groups are searched one after the other, each over all shards (`find_duplicates`): of N
samples about N / 256 are in memory at a time, at less than 100 bytes each. Of equal samples the first in the order of
the corpus is kept, whichever process made which shard. Samples are not encoded yet, so the first counts even if it is
later dropped for its length in ids.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from t2t.data.generation.digests import GROUPS
from t2t.data.generation.plan import GenerationPlan
from t2t.data.generation.shards import NpyFile
from t2t.data.generation.verdicts import DigestRecord, DuplicatesRecord, digest_folder, duplicates_folder
from t2t.data.generation.work_folders import read_finished, write_work_record, written_whole
from t2t.data.manifest import FileRecord
from t2t.data.npy_files import MappedFiles, NpyHeader
from t2t.errors import UserError
from t2t.files.atomic import fsync_file, os_errors_as_machine_errors, sha256_of
from t2t.specs.constants import TRAIN

log = logging.getLogger("t2t")

_CHUNK = 1 << 20
"""Bytes that `_write_zeros` writes at a time."""


def missing_digests(plan: GenerationPlan, folder: Path) -> list[int]:
    """Returns the numbers of the training split's shards whose digests do not exist yet."""
    shards = range(plan.shards[TRAIN])
    return [shard for shard in shards if read_finished(DigestRecord, plan, digest_folder(folder, shard)) is None]


def find_duplicates(plan: GenerationPlan, folder: Path) -> DuplicatesRecord:
    """Finds the training samples that repeat an earlier one, unless they were found before.

    Args:
        plan: of the generation.
        folder: in which data is generated; it has the digests of all shards.

    Raises:
        UserError: digests are missing, or another process looks for duplicates.
        MachineError: the disk is full, or the place is not writable.
    """
    place = duplicates_folder(folder)
    if (finished := read_finished(DuplicatesRecord, plan, place)) is not None:
        return finished
    digests = _ShardDigests.open_all(plan, folder)
    samples = [one.samples for one in digests]
    with written_whole(place) as written, os_errors_as_machine_errors(f"cannot write {place}"):
        path = written / "repeated.npy"
        _write_zeros(path, sum(samples))
        repeated = np.lib.format.open_memmap(path, "r+")
        for group in range(GROUPS):
            repeated[_find_repeated(digests, group)] = 1
        repeated.flush()
        count = np.count_nonzero(repeated)
        del repeated
        fsync_file(path)
        file = FileRecord(name=path.name, bytes=path.stat().st_size, sha256=sha256_of(path))
        record = DuplicatesRecord(plan=plan.fingerprint, samples=samples, repeated=file)
        write_work_record(written, record)
    log.info("%s: %s of %s samples repeat an earlier one", TRAIN, f"{count:,}", f"{sum(samples):,}")
    return record


def _write_zeros(path: Path, count: int) -> None:
    """Writes an array of zeros, (count,) uint8, so that its space is taken before it is mapped.

    If the disk were full later, writing to the map would kill the process by a signal.
    """
    file = NpyFile(path, np.dtype(np.uint8), ())
    try:
        for first in range(0, count, _CHUNK):
            file.append(np.zeros(min(_CHUNK, count - first), np.uint8))
        file.close()
    finally:
        file.abandon()


class _ShardDigests:
    """The digests of one shard, mapped into memory."""

    def __init__(self, entries: np.ndarray, record: DigestRecord):
        self._entries, self.samples = entries, record.samples
        groups = np.array(record.groups, np.int64)  # (blocks, groups)
        self._stops = np.cumsum(groups).reshape(groups.shape)
        self._starts = self._stops - groups

    @classmethod
    def open_all(cls, plan: GenerationPlan, folder: Path) -> "list[_ShardDigests]":
        """Maps the digests of all shards; raises UserError if some do not exist, MachineError if there is no room."""
        paths, records = [], []
        for shard in range(plan.shards[TRAIN]):
            place = digest_folder(folder, shard)
            record = read_finished(DigestRecord, plan, place)
            if record is None:
                raise UserError(
                    f"{folder}: the digests of shard {shard} of split {TRAIN!r}, which duplicates are found by, are "
                    f"not written yet; run the same command again"
                )
            paths.append(place / record.digests.name)
            records.append(record)
        with os_errors_as_machine_errors(f"cannot read the digests in {folder}"):
            entries = MappedFiles([NpyHeader.read(path) for path in paths])
        return [cls(entries[shard], record) for shard, record in enumerate(records)]

    def read(self, group: int) -> np.ndarray:
        """Returns the entries of one group, in the order of the samples."""
        bounds = zip(self._starts[:, group], self._stops[:, group], strict=True)
        return np.concatenate([self._entries[start:stop] for start, stop in bounds])


def _find_repeated(digests: Sequence[_ShardDigests], group: int) -> np.ndarray:
    """Returns the indices, in the corpus, of the samples in a group that repeat an earlier one."""
    firsts = np.cumsum([0, *(one.samples for one in digests)])
    parts = [one.read(group) for one in digests]
    entries = np.concatenate(parts)
    places = entries["sample"] + np.repeat(firsts[:-1], [len(part) for part in parts]).astype(np.uint64)
    order = np.lexsort((entries["low"], entries["high"]))  # stable: equal ones stay in the order of the corpus
    high, low = entries["high"][order], entries["low"][order]
    same = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    return places[order[1:][same]]
