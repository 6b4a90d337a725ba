"""WMT 2014 news translation, the corpora of "Attention Is All You Need" (Vaswani et al. 2017, section 5.1).

One instance of English to German:
    inputs   The committee will meet again on Thursday to vote on the proposal.
    targets  Der Ausschuss wird am Donnerstag erneut zusammentreten, um über den Vorschlag abzustimmen.

train: Europarl v7, Common Crawl and News Commentary v9, for French also the UN corpus and 10^9 French-English: about
4.5 million pairs with German, 40 million with French; dev: newstest2013, 3,000 pairs; test: newstest2014, 3,003 pairs.
Source: Bojar et al. 2014, "Findings of the 2014 Workshop on Statistical Machine Translation",
https://www.statmt.org/wmt14/translation-task.html, through TensorFlow Datasets (`wmt14_translate`).
Licence: research use, as the workshop states; each corpus has terms of its own.
"""

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from t2t.constants import DEV, INPUTS, TARGETS, TEST, TRAIN
from t2t.errors import UserError, one_line
from t2t.problems.base import Sample, Source
from t2t.problems.translation import Translation
from t2t.registry import PROBLEMS, register_problem
from t2t.text.lines import clean_line

_TFDS_SPLITS = {TRAIN: "train", DEV: "validation", TEST: "test"}
_MAX_BYTES = 1024  # about what 256 pieces of the 32k vocabularies stand for


class Wmt14(Translation):
    """What the language pairs of WMT 2014 share: English to another language, one vocabulary for both."""

    splits = (TRAIN, DEV, TEST)
    source_language = "en"
    dataset: ClassVar[str] = ""
    """Name of the data set and its configuration in TensorFlow Datasets."""

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the pairs of a split in the order in which they are stored; of a part, see `Source`, not all are read.

        Raises:
            UserError: the data are not there and could not be downloaded.
        """
        self.check_split(split)
        for pair in _read(self.name, self.dataset, _TFDS_SPLITS[split], source):
            yield {
                INPUTS: clean_line(pair[self.source_language], source.tally),
                TARGETS: clean_line(pair[self.target_language], source.tally),
            }

    def requirements(self) -> str:
        """Returns where the prepared data are looked for."""
        return f"{self.dataset} of TensorFlow Datasets in --tmp_dir/tensorflow_datasets; downloaded where it is missing"


class WmtEnde(Wmt14):
    """English to German."""

    target_language = "de"
    dataset = "wmt14_translate/de-en"


class WmtEnfr(Wmt14):
    """English to French."""

    target_language = "fr"
    dataset = "wmt14_translate/fr-en"


@register_problem("wmt_ende_tokens_8k")
class WmtEnde8k(WmtEnde):
    """WMT 2014 news translation, English to German (4.5 million pairs, 8k pieces)."""

    vocab_size = 2**13


@register_problem("wmt_ende_tokens_32k")
class WmtEnde32k(WmtEnde):
    """WMT 2014 news translation, English to German (4.5 million pairs, 32k pieces)."""

    vocab_size = 2**15


@register_problem("wmt_ende_tokens_128k")
class WmtEnde128k(WmtEnde):
    """WMT 2014 news translation, English to German (4.5 million pairs, 128k pieces)."""

    vocab_size = 2**17


@register_problem("wmt_ende_characters")
class WmtEndeCharacters(WmtEnde):
    """WMT 2014 news translation, English to German (4.5 million pairs, bytes)."""

    vocab_kind, max_length = "byte", _MAX_BYTES  # sets say `max_length` too: --hparams=max_length=1024


@register_problem("wmt_enfr_tokens_8k")
class WmtEnfr8k(WmtEnfr):
    """WMT 2014 news translation, English to French (40 million pairs, 8k pieces)."""

    vocab_size = 2**13


@register_problem("wmt_enfr_tokens_32k")
class WmtEnfr32k(WmtEnfr):
    """WMT 2014 news translation, English to French (40 million pairs, 32k pieces)."""

    vocab_size = 2**15


@register_problem("wmt_enfr_tokens_128k")
class WmtEnfr128k(WmtEnfr):
    """WMT 2014 news translation, English to French (40 million pairs, 128k pieces)."""

    vocab_size = 2**17


@register_problem("wmt_enfr_characters")
class WmtEnfrCharacters(WmtEnfr):
    """WMT 2014 news translation, English to French (40 million pairs, bytes)."""

    vocab_kind, max_length = "byte", _MAX_BYTES


# Tensor2Tensor's names from version 1.2 on, and such names for those of 128k, which it dropped.
PROBLEMS.alias("translate_ende_wmt8k", "wmt_ende_tokens_8k")
PROBLEMS.alias("translate_ende_wmt32k", "wmt_ende_tokens_32k")
PROBLEMS.alias("translate_ende_wmt128k", "wmt_ende_tokens_128k")
PROBLEMS.alias("translate_ende_wmt_characters", "wmt_ende_characters")
PROBLEMS.alias("translate_enfr_wmt8k", "wmt_enfr_tokens_8k")
PROBLEMS.alias("translate_enfr_wmt32k", "wmt_enfr_tokens_32k")
PROBLEMS.alias("translate_enfr_wmt128k", "wmt_enfr_tokens_128k")
PROBLEMS.alias("translate_enfr_wmt_characters", "wmt_enfr_characters")


def _read(problem: str, dataset: str, split: str, source: Source) -> Iterator[dict[str, bytes]]:
    """Yields the examples of a TFDS split, downloading and preparing the data set where the folder has none."""
    # Imported here: it loads TensorFlow, which nobody who only lists or builds other problems should wait for.
    import tensorflow_datasets as tfds

    folder = Path(source.tmp_dir) / "tensorflow_datasets"
    try:
        builder = tfds.builder(dataset, data_dir=folder)
        builder.download_and_prepare()
        info = builder.info.splits[split]
        # A record has the text of both sides and little else.
        share = source.enough_bytes / info.num_bytes if source.enough_bytes else 1.0
        part = _beginnings(info.shard_lengths, share)
        examples: Any = builder.as_dataset(
            split=functools.reduce(operator.add, (tfds.core.ReadInstruction(split, *slice_) for slice_ in part)),
            shuffle_files=False,
            # A cache would hold a whole split in memory.
            read_config=tfds.ReadConfig(try_autocache=False),
        )
    except Exception as error:  # TFDS lets through whatever its downloads, checks and extractors raise.
        raise UserError(
            f"{problem}: tfds.load({dataset!r}, split={split!r}, data_dir={str(folder)!r}) failed: "
            f"{type(error).__name__}: {one_line(error)[:200]}; connect this machine to the network, or prepare the "
            f"data set with TensorFlow Datasets elsewhere and copy its folder to {folder / dataset}"
        ) from error
    source.skipped += info.num_examples - sum(end - start for start, end in part)
    yield from _iterated(problem, tfds.as_numpy(examples), folder / dataset)


def _beginnings(lengths: Sequence[int], share: float) -> list[tuple[int, int]]:
    """Returns which examples (from, to) to read: of each file the first ones.

    TFDS shuffled the examples over all files when it wrote them, so that the beginnings stand for the whole; to get at
    a part within a file it would read that from the start.

    Args:
        lengths: numbers of examples in the files.
        share: of the examples, how many to read, rounded up for each file; 1 or more for all.
    """
    ends = itertools.accumulate(lengths)
    return [
        (end - length, end - length + math.ceil(length * min(share, 1.0)))
        for end, length in zip(ends, lengths, strict=True)
        if length
    ]


def _iterated(problem: str, examples: Iterable[dict[str, bytes]], place: Path) -> Iterator[dict[str, bytes]]:
    """Yields examples; what TensorFlow raises while it reads them becomes a line, what their user raises does not."""
    iterator, number = None, 0
    while True:
        try:
            iterator = iter(examples) if iterator is None else iterator
            example = next(iterator)
        except StopIteration:
            return
        except Exception as error:  # one of the many classes of TensorFlow's errors, or of the system's
            raise UserError(
                f"{problem}: reading example {number + 1:,} of the data set in {place} failed: "
                f"{type(error).__name__}: {one_line(error)[:200]}; if its files are damaged, delete that folder and "
                f"run the same command again"
            ) from error
        number += 1
        yield example
