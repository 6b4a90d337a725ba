"""WMT 2014 news translation, the corpora of "Attention Is All You Need" (Vaswani et al. 2017, section 5.1).

One instance of English to German:
    inputs   The committee will meet again on Thursday to vote on the proposal.
    targets  Der Ausschuss wird am Donnerstag erneut zusammentreten, um über den Vorschlag abzustimmen.

train: Europarl v7, Common Crawl and News Commentary v9, for French also the UN corpus and 10^9 French-English: about
4.5 million pairs with German, 40 million with French; dev: newstest2013, 3,000 pairs; test: newstest2014, 3,003 pairs.
Source: Bojar et al. 2014, "Findings of the 2014 Workshop on Statistical Machine Translation",
https://www.statmt.org/wmt14/translation-task.html, through TensorFlow Datasets (`wmt14_translate`).
Licence: research use, as the workshop states; each corpus has terms of its own.

The aliases are Tensor2Tensor's names from version 1.2 on, and such names for those of 128k, which it dropped.
"""

from collections.abc import Iterator
from typing import ClassVar

from t2t.files.lines import clean_line
from t2t.problems.base import Sample, Source
from t2t.problems.formats.tfds import read_tfds
from t2t.problems.translation import Translation
from t2t.registry import register_problem
from t2t.specs.constants import DEV, INPUTS, TARGETS, TEST, TRAIN

_TFDS_SPLITS = {TRAIN: "train", DEV: "validation", TEST: "test"}
_MAX_BYTES = 1024  # about what 256 pieces of the 32k vocabularies stand for


class Wmt14(Translation):
    """What the language pairs of WMT 2014 share: English to another language, one vocabulary for both."""

    splits = (TRAIN, DEV, TEST)
    source_language = "en"
    dataset: ClassVar[str] = ""
    """Name of the data set and its configuration in TensorFlow Datasets."""

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the pairs of a split in the order in which they are stored."""
        self.check_split(split)
        for pair in read_tfds(self.name, self.dataset, _TFDS_SPLITS[split], source):
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


@register_problem("wmt_ende_tokens_8k", aliases=["translate_ende_wmt8k"])
class WmtEnde8k(WmtEnde):
    """WMT 2014 news translation, English to German (4.5 million pairs, 8k pieces)."""

    vocab_size = 2**13


@register_problem("wmt_ende_tokens_32k", aliases=["translate_ende_wmt32k"])
class WmtEnde32k(WmtEnde):
    """WMT 2014 news translation, English to German (4.5 million pairs, 32k pieces)."""

    vocab_size = 2**15


@register_problem("wmt_ende_tokens_128k", aliases=["translate_ende_wmt128k"])
class WmtEnde128k(WmtEnde):
    """WMT 2014 news translation, English to German (4.5 million pairs, 128k pieces)."""

    vocab_size = 2**17


@register_problem("wmt_ende_characters", aliases=["translate_ende_wmt_characters"])
class WmtEndeCharacters(WmtEnde):
    """WMT 2014 news translation, English to German (4.5 million pairs, bytes)."""

    vocab_kind, max_length = "byte", _MAX_BYTES  # sets say `max_length` too: --hparams=max_length=1024


@register_problem("wmt_enfr_tokens_8k", aliases=["translate_enfr_wmt8k"])
class WmtEnfr8k(WmtEnfr):
    """WMT 2014 news translation, English to French (40 million pairs, 8k pieces)."""

    vocab_size = 2**13


@register_problem("wmt_enfr_tokens_32k", aliases=["translate_enfr_wmt32k"])
class WmtEnfr32k(WmtEnfr):
    """WMT 2014 news translation, English to French (40 million pairs, 32k pieces)."""

    vocab_size = 2**15


@register_problem("wmt_enfr_tokens_128k", aliases=["translate_enfr_wmt128k"])
class WmtEnfr128k(WmtEnfr):
    """WMT 2014 news translation, English to French (40 million pairs, 128k pieces)."""

    vocab_size = 2**17


@register_problem("wmt_enfr_characters", aliases=["translate_enfr_wmt_characters"])
class WmtEnfrCharacters(WmtEnfr):
    """WMT 2014 news translation, English to French (40 million pairs, bytes)."""

    vocab_kind, max_length = "byte", _MAX_BYTES
