"""Reads data sets of TensorFlow Datasets, which imports TensorFlow and so is itself imported only when it is used."""

import contextlib
import dataclasses
import functools
import itertools
import logging
import math
import operator
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from t2t.errors import UserError, one_line
from t2t.problems.base import GenerationContext
from t2t.specs import DEV, TEST, TRAIN

log = logging.getLogger("t2t")

FOLDER = "tensorflow_datasets"
"""Subfolder, in the folder of raw files, of the prepared data sets."""

TFDS_SPLITS = {TRAIN: "train", DEV: "validation", TEST: "test"}
"""The usual names of the splits."""

_RETRIES = 7
"""How often a download is tried again, after pauses that double and add up to 25 s; TFDS's 10 take 3.5 minutes."""


@dataclasses.dataclass(frozen=True)
class TfdsSplit:
    """A split of a data set, or a part of one such as `train[:-5000]`; the data set is prepared when it is first read.

    Its methods raise UserError if the data set cannot be prepared or read.
    """

    problem: str
    """Name of the problem, for messages."""
    dataset: str
    """Name, and configuration after a slash."""
    split: str
    context: GenerationContext
    """Has the folder, and the shard to read out of the number that `count_shards` returns."""
    instead: str = ""
    """What else the user could do if the data set is not available, for messages."""
    retries: int = _RETRIES
    """How often a download is tried again."""

    def count_shards(self) -> int:
        """Returns the number of files of a split; 1 for a part of a split, or several splits."""

        def count() -> int:
            files = _file_ranges(self._prepared(), self.split) if self.split.isidentifier() else []
            return max(1, len(files))

        found: int = self.context.cached(f"{self.dataset}-{self.split}-files".replace("/", "-"), count)
        return found

    def read(self, only_text: bool = True) -> Iterator[dict[str, Any]]:
        """Yields the examples, feature name to bytes, number or array, in the order of the files.

        Of a whole split, only a part is read if `context.enough_bytes` is set and records hold little but text.
        """
        import tensorflow_datasets as tfds

        builder = self._prepared()
        with self._errors_of_loading():
            instruction, left_out = self._instruction(tfds, builder, self.context.enough_bytes if only_text else None)
            # Autocaching would keep a whole split in memory.
            config = tfds.ReadConfig(try_autocache=False)
            examples: Any = builder.as_dataset(split=instruction, shuffle_files=False, read_config=config)
        self.context.skipped += left_out
        yield from _iterated(self.problem, tfds.as_numpy(examples), self._folder / self.dataset)

    @property
    def _folder(self) -> Path:
        return Path(self.context.tmp_dir) / FOLDER

    def _prepared(self) -> Any:
        import tensorflow_datasets as tfds
        from tensorflow_datasets.core.download import downloader

        downloader.MAX_RETRIES = self.retries  # no argument or flag sets it
        with self._errors_of_loading():
            builder = tfds.builder(self.dataset, data_dir=self._folder)
            if not builder.is_prepared():
                log.info(
                    "%s: downloading %s (%s) and preparing it in %s, by TensorFlow Datasets", self.problem,
                    self.dataset, builder.info.download_size or "of unknown size", builder.data_path,
                )  # fmt: skip
            builder.download_and_prepare()
            return builder

    @contextlib.contextmanager
    def _errors_of_loading(self) -> Iterator[None]:
        folder = self._folder
        try:
            yield
        except Exception as error:  # TFDS passes on any errors of its downloads, checks and extractors
            raise UserError(
                f"{self.problem}: tfds.load({self.dataset!r}, split={self.split!r}, data_dir={str(folder)!r}) failed: "
                f"{type(error).__name__}: {one_line(error)[:200]}",
                "connect this machine to the network, or prepare the data set with TensorFlow Datasets elsewhere and "
                f"copy its folder to {folder / self.dataset}{self.instead}",
            ) from error

    def _instruction(self, tfds: Any, builder: Any, enough_bytes: int | None) -> tuple[Any, int]:
        """Returns the read instruction, and the number of examples of the shard or split that it leaves out."""
        split, context = self.split, self.context
        if context.shards == 1 and ("[" in split or not enough_bytes):
            return split, 0
        info = builder.info.splits[split]
        ranges = _file_ranges(builder, split)
        of_shard = ranges if context.shards == 1 else [ranges[context.shard]]
        # Approximates the bytes of text by those of records, which contain little else.
        share = min(1.0, enough_bytes * context.shards / info.num_bytes) if enough_bytes else 1.0
        # TFDS shuffles the examples over all files when it writes them, so that the beginnings represent the rest; to
        # reach a later part of a file, it would have to read the file from its start.
        part = [(start, start + math.ceil((end - start) * share)) for start, end in of_shard]
        instructions = (tfds.core.ReadInstruction(split, *slice_) for slice_ in part)
        left_out = sum(end - start for start, end in of_shard) - sum(end - start for start, end in part)
        return functools.reduce(operator.add, instructions), left_out


def tfds_requirement(dataset: str) -> str:
    """Returns what `Problem.requirements` says of a data set that is read through TensorFlow Datasets."""
    return f"{dataset} of TensorFlow Datasets in --tmp_dir/{FOLDER}, downloaded where it is missing"


def _file_ranges(builder: Any, split: str) -> list[tuple[int, int]]:
    """Returns the range of examples (from, to) of each file of a split, without empty files."""
    lengths = builder.info.splits[split].shard_lengths
    ends = itertools.accumulate(lengths)
    return [(end - length, end) for end, length in zip(ends, lengths, strict=True) if length]


def _iterated(problem: str, examples: Iterable[dict[str, bytes]], folder: Path) -> Iterator[dict[str, bytes]]:
    """Yields examples; turns TensorFlow's errors while reading into UserError, but not errors of the consumer."""
    iterator, number = None, 0
    while True:
        try:
            iterator = iter(examples) if iterator is None else iterator
            example = next(iterator)
        except StopIteration:
            return
        except Exception as error:  # one of the many classes of TensorFlow's errors, or of the system's
            raise UserError(
                f"{problem}: reading example {number + 1:,} of the data set in {folder} failed: "
                f"{type(error).__name__}: {one_line(error)[:200]}",
                "if its files are damaged, delete that folder and run the same command again",
            ) from error
        number += 1
        yield example


def class_names(problem: str, dataset: str, feature: str, context: GenerationContext) -> tuple[str, ...]:
    """Returns the class names of a label feature, which TensorFlow Datasets knows without the data.

    Raises:
        UserError: there is no such data set.
    """
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(dataset, data_dir=Path(context.tmp_dir) / FOLDER)
        return tuple(builder.info.features[feature].names)
    except Exception as error:  # as above
        raise UserError(
            f"{problem}: TensorFlow Datasets does not tell the classes of {dataset}: {type(error).__name__}: "
            f"{one_line(error)[:200]}",
            "install the version that this package requires",
        ) from error
