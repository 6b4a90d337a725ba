"""Reads data sets of TensorFlow Datasets, which imports TensorFlow and so is itself imported only when it is used."""

import contextlib
import functools
import itertools
import logging
import math
import operator
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from t2t.errors import UserError, one_line
from t2t.problems.base import GenerationContext, Problem, Sample
from t2t.specs.constants import DEV, TEST, TRAIN

log = logging.getLogger("t2t")

FOLDER = "tensorflow_datasets"
"""Subfolder, in the folder of raw files, of the prepared data sets."""

_RETRIES = 7
"""How often a download is tried again, after pauses that double and add up to 25 s; TFDS's 10 take 3.5 minutes."""


class TfdsProblem(Problem):
    """A problem of a data set of TensorFlow Datasets. List it before the class that defines the features."""

    _dataset: ClassVar[str] = ""
    """Name of the data set, and configuration after a slash."""
    _tfds_splits: ClassVar[Mapping[str, str]] = {TRAIN: "train", DEV: "validation", TEST: "test"}
    _only_text: ClassVar[bool] = True
    """See `read_tfds`."""

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of files of a split."""
        return count_tfds_shards(self.name, self._dataset, self._tfds_splits[split], context, self._instead(context))

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the samples of a split in stored order."""
        self.check_split(split)
        splits, instead = self._tfds_splits, self._instead(context)
        for example in read_tfds(self.name, self._dataset, splits[split], context, instead, self._only_text):
            yield from self.samples_of(example, context)

    @abstractmethod
    def samples_of(self, example: dict[str, Any], context: GenerationContext) -> Iterable[Sample]:
        """Returns the samples that an example of the data set gives."""

    def requirements(self) -> str:
        """Returns where the prepared data are looked for."""
        return f"{self._dataset} of TensorFlow Datasets in --tmp_dir/{FOLDER}; downloaded where it is missing"

    def _instead(self, context: GenerationContext) -> str:
        """Returns what else the user could do, see `read_tfds`."""
        return ""


def count_tfds_shards(problem: str, dataset: str, split: str, context: GenerationContext, instead: str = "") -> int:
    """Returns the number of files of a split; 1 for a part of a split such as `train[:-5000]`. See `read_tfds`."""

    def count() -> int:
        is_whole = split.isidentifier()  # False for a part of a split, or several splits
        files = _file_ranges(_prepared(problem, dataset, split, context, instead), split) if is_whole else []
        return max(1, len(files))

    found: int = context.cached(f"{dataset}-{split}-files".replace("/", "-"), count)
    return found


def read_tfds(
    problem: str,
    dataset: str,
    split: str,
    context: GenerationContext,
    instead: str = "",
    only_text: bool = True,
    retries: int = _RETRIES,
) -> Iterator[dict[str, Any]]:
    """Yields the examples of a split; downloads and prepares the data set if the folder does not have it.

    Args:
        problem: its name, for messages.
        dataset: name, and configuration after a slash.
        split: a split, or a part of one such as `train[:-5000]`; examples come in the order of the files. Of a whole
            split, only a part is read if `context.enough_bytes` is set.
        context: has the folder, and the shard to read out of the number that `count_tfds_shards` returns.
        instead: what else the user could do if the data set is not available, for messages.
        only_text: whether records hold little but text; if not, `context.enough_bytes` is ignored.
        retries: how often a download is tried again.

    Yields:
        Feature name to bytes, number or array.

    Raises:
        UserError: the data set cannot be prepared or read.
    """
    import tensorflow_datasets as tfds

    builder = _prepared(problem, dataset, split, context, instead, retries)
    with _errors_of_loading(problem, dataset, split, context, instead):
        enough_bytes = context.enough_bytes if only_text else None
        instruction, left_out = _instruction(tfds, builder, split, context, enough_bytes)
        # Autocaching would keep a whole split in memory.
        config = tfds.ReadConfig(try_autocache=False)
        examples: Any = builder.as_dataset(split=instruction, shuffle_files=False, read_config=config)
    context.skipped += left_out
    yield from _iterated(problem, tfds.as_numpy(examples), Path(context.tmp_dir) / FOLDER / dataset)


def _prepared(
    problem: str, dataset: str, split: str, context: GenerationContext, instead: str, retries: int = _RETRIES
) -> Any:
    """Returns the builder of a data set that has been downloaded and prepared."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download import downloader

    downloader.MAX_RETRIES = retries  # no argument or flag sets it
    with _errors_of_loading(problem, dataset, split, context, instead):
        builder = tfds.builder(dataset, data_dir=Path(context.tmp_dir) / FOLDER)
        if not builder.is_prepared():
            log.info(
                "%s: downloading %s (%s) and preparing it in %s, by TensorFlow Datasets",
                problem, dataset, builder.info.download_size or "of unknown size", builder.data_path,
            )  # fmt: skip
        builder.download_and_prepare()
        return builder


@contextlib.contextmanager
def _errors_of_loading(
    problem: str, dataset: str, split: str, context: GenerationContext, instead: str
) -> Iterator[None]:
    folder = Path(context.tmp_dir) / FOLDER
    try:
        yield
    except Exception as error:  # TFDS passes on any errors of its downloads, checks and extractors
        raise UserError(
            f"{problem}: tfds.load({dataset!r}, split={split!r}, data_dir={str(folder)!r}) failed: "
            f"{type(error).__name__}: {one_line(error)[:200]}",
            "connect this machine to the network, or prepare the data set with TensorFlow Datasets elsewhere and copy "
            f"its folder to {folder / dataset}{instead}",
        ) from error


def _instruction(
    tfds: Any, builder: Any, split: str, context: GenerationContext, enough_bytes: int | None
) -> tuple[Any, int]:
    """Returns the read instruction, and the number of examples of the shard or split that it leaves out."""
    if context.shards == 1 and ("[" in split or not enough_bytes):
        return split, 0
    info = builder.info.splits[split]
    ranges = _file_ranges(builder, split)
    of_shard = ranges if context.shards == 1 else [ranges[context.shard]]
    # Approximates the bytes of text by those of records, which contain little else.
    share = enough_bytes * context.shards / info.num_bytes if enough_bytes else 1.0
    part = _leading_ranges(of_shard, share)
    instructions = (tfds.core.ReadInstruction(split, *slice_) for slice_ in part)
    left_out = sum(end - start for start, end in of_shard) - sum(end - start for start, end in part)
    return functools.reduce(operator.add, instructions), left_out


def _file_ranges(builder: Any, split: str) -> list[tuple[int, int]]:
    """Returns the range of examples (from, to) of each file of a split, without empty files."""
    lengths = builder.info.splits[split].shard_lengths
    ends = itertools.accumulate(lengths)
    return [(end - length, end) for end, length in zip(ends, lengths, strict=True) if length]


def _leading_ranges(ranges: Sequence[tuple[int, int]], share: float) -> list[tuple[int, int]]:
    """Returns the ranges of examples (from, to) to read: the first ones of each file.

    TFDS shuffles the examples over all files when it writes them, so that the beginnings represent the whole; to reach
    a later part of a file, it would have to read the file from its start.

    Args:
        ranges: of the examples of each file.
        share: fraction of the examples to read, rounded up for each file; 1 or more for all.
    """
    return [(start, start + math.ceil((end - start) * min(share, 1.0))) for start, end in ranges]


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
