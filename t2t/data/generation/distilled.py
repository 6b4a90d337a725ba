"""Distilled data: generated data with training targets from a teacher model, otherwise unchanged.

Sequence-level knowledge distillation: Kim and Rush 2016, arXiv:1606.07947, section 3.2.
"""

import contextlib
import dataclasses
import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import t2t
from t2t.data.columns import FeatureColumn, pack
from t2t.data.generation.data_folder import describe_counts, fetch_data, publish_data, refresh, written_aside
from t2t.data.generation.split_writer import MOST_EXAMPLES, SplitWriter
from t2t.data.manifest import MANIFEST_NAME, Distillation, Manifest, SplitRecord, read_manifest, write_manifest
from t2t.data.reading.reader import SplitReader
from t2t.errors import UserError
from t2t.files.atomic import fsync_file, os_errors_as_machine_errors
from t2t.files.trust import check_inside
from t2t.specs import TARGETS, TRAIN

log = logging.getLogger("t2t")


def find_distilled(folder: Path, wanted: Distillation) -> Manifest | None:
    """Returns the manifest of existing data that was distilled as requested; None if there is no folder yet.

    Raises:
        UserError: the folder holds other data, or files that are not data.
    """
    refresh(folder)
    if not folder.exists():
        return None
    what = "it is not generated data"
    if (folder / MANIFEST_NAME).is_file():
        manifest = read_manifest(folder)
        if manifest.distilled and dataclasses.replace(manifest.distilled, references={}) == wanted:
            log.info("%s is there already: %s; nothing to do", folder, describe_counts(manifest))
            return manifest
        what = "its data was distilled otherwise" if manifest.distilled else "its data is not distilled"
    raise UserError(
        f"{folder} is there already, and {what}", "name another --distilled_data_dir, or delete that folder"
    )


def write_distilled(
    folder: Path,
    original: Path,
    manifest: Manifest,
    targets: Iterable[list[list[int] | None]],
    distillation: Distillation,
) -> Manifest:
    """Writes data with other training targets.

    Args:
        folder: to make; the data has the same problem, vocabularies and other splits as the original.
        original: folder of the original data. Its training split is read as stored, without language tags or codes.
        manifest: of the original data.
        targets: lists of targets of consecutive examples, each as ids, end of sequence included, or None to keep the
            example's own target. They have no language codes either.
        distillation: how they were made.

    Returns:
        The manifest of the new data.

    Raises:
        UserError: a file of the original data is missing or damaged.
        MachineError: the disk is full, or the folder is not writable.
    """
    with written_aside(folder) as partial:
        others = [split for name, split in manifest.splits.items() if name != TRAIN]
        names = [file.name for split in others for file in split.files()]
        fetch_data(original, manifest, manifest.splits)
        with os_errors_as_machine_errors(f"cannot write {partial}"):
            for name in {*names, *(vocabulary.file for vocabulary in manifest.vocabularies.values())}:
                check_inside(original, original / name)
                shutil.copyfile(original / name, partial / name)
                fsync_file(partial / name)
        reader = SplitReader(original, manifest, TRAIN)
        with contextlib.closing(SplitWriter(partial, TRAIN, reader.features, MOST_EXAMPLES)) as writer:
            train = _write_train(writer, reader, manifest.splits[TRAIN], targets)
        new = dataclasses.replace(
            manifest, splits=manifest.splits | {TRAIN: train}, distilled=distillation, written_by=t2t.__version__
        )
        write_manifest(partial, new)
    publish_data(folder, new)
    return new


def _write_train(
    writer: SplitWriter, reader: SplitReader, record: SplitRecord, targets: Iterable[list[list[int] | None]]
) -> SplitRecord:
    """Writes the training split; returns its record."""
    for rows in targets:
        indices = np.arange(writer.examples, writer.examples + len(rows))
        columns = {name: FeatureColumn(*reader.read(indices, name)) for name in reader.features}
        own = np.split(columns[TARGETS].values, np.cumsum(columns[TARGETS].lengths)[:-1])
        new = [mine if row is None else np.array(row) for mine, row in zip(own, rows, strict=True)]
        columns[TARGETS] = pack(new, reader.features[TARGETS], TARGETS, reader.problem, "teacher")
        writer.write(columns)
    if writer.examples != len(reader):
        raise RuntimeError(f"{writer.examples} targets for {len(reader)} examples")
    totals, shards = writer.finish()
    unknown, normalized = (
        {name: count for name, count in counts.items() if name != TARGETS}
        for counts in (record.unknown, record.normalized)
    )
    return dataclasses.replace(record, columns=totals, shards=shards, unknown=unknown, normalized=normalized)
