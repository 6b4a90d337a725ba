"""News translation tasks of WMT: English to another language.

One instance of English to German:
    inputs   The committee will meet again on Thursday to vote on the proposal.
    targets  Der Ausschuss wird am Donnerstag erneut zusammentreten, um über den Vorschlag abzustimmen.

WMT 2014, German and French, has the corpora of "Attention Is All You Need" (Vaswani et al. 2017, section 5.1). train:
Europarl v7, Common Crawl and News Commentary v9, for French also the UN corpus and 10^9 French-English: 4.5 million
pairs with German, about 40 million with French; dev: newstest2013, 3,000 pairs; test: newstest2014, 3,003. The other
pairs are those of Tensor2Tensor, of the years in `_PAIRS`, with the training, dev and test sets of those years.
Source: Bojar et al. 2014, "Findings of the 2014 Workshop on Statistical Machine Translation",
https://www.statmt.org/wmt14/translation-task.html, and so on for other years, through TensorFlow Datasets
(`wmt14_translate`, ...). Some corpora (CzEng, CWMT) have to be fetched by hand; TensorFlow Datasets says which.
Licence: research use, as the workshop states; each corpus has its own terms.

Problems of German and French have the names of Tensor2Tensor's first versions, others those of version 1.2 and later;
see `t2t.registry.tensor2tensor`.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

from t2t.files.lines import clean_line
from t2t.problems.base import Sample, Source
from t2t.problems.formats.tfds import count_tfds_shards, read_tfds
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs.constants import DEV, INPUTS, TARGETS, TEST, TRAIN

_TFDS_SPLITS = {TRAIN: "train", DEV: "validation", TEST: "test"}


class WmtTranslation(Text2Text):
    """Base class of the language pairs: English to another language, by default with one vocabulary for both."""

    splits = (TRAIN, DEV, TEST)
    translates = True
    source_language = "en"
    dataset: ClassVar[str] = ""
    """Name of the data set and its configuration in TensorFlow Datasets."""

    def shards(self, split: str, source: Source) -> int:
        """Returns the number of files of a split in TensorFlow Datasets."""
        return count_tfds_shards(self.name, self.dataset, _TFDS_SPLITS[split], source)

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the pairs of a split in stored order."""
        self.check_split(split)
        for pair in read_tfds(self.name, self.dataset, _TFDS_SPLITS[split], source):
            yield {
                INPUTS: clean_line(pair[self.source_language], source.tally),
                TARGETS: clean_line(pair[self.target_language], source.tally),
            }

    def requirements(self) -> str:
        """Returns where the prepared data are looked for."""
        return f"{self.dataset} of TensorFlow Datasets in --tmp_dir/tensorflow_datasets; downloaded where it is missing"


@dataclasses.dataclass(frozen=True)
class _Pair:
    """English and another language."""

    code: str
    language: str
    year: int
    vocabularies: tuple[str, ...]
    """Keys of `_VOCABULARIES`."""
    size: str = ""
    """Of the training data, for summaries."""
    of_2017: bool = False
    """Whether its problems have the names of Tensor2Tensor's first versions."""
    shared: bool = True
    """Whether both languages share a vocabulary."""


_VOCABULARIES: dict[str, tuple[str, dict[str, Any]]] = {
    "8k": ("8k pieces", {"vocab_size": 2**13}),
    "32k": ("32k pieces", {"vocab_size": 2**15}),
    "128k": ("128k pieces", {"vocab_size": 2**17}),
    # 1,024 bytes are about as long as 256 pieces of 32k; hparams sets limit lengths too: --hparams=max_length=1024
    "characters": ("bytes", {"vocab_kind": "byte", "max_length": 1024}),
}
"""By name, the words for summaries and the attributes of the problem."""

_PAIRS = (
    _Pair("de", "German", 2014, ("8k", "32k", "128k", "characters"), "4.5 million pairs, ", of_2017=True),
    _Pair("fr", "French", 2014, ("8k", "32k", "128k", "characters"), "40 million pairs, ", of_2017=True),
    _Pair("cs", "Czech", 2014, ("32k", "characters")),
    _Pair("es", "Spanish", 2013, ("8k", "32k", "characters")),
    _Pair("et", "Estonian", 2018, ("32k", "characters")),
    _Pair("ro", "Romanian", 2016, ("8k", "32k", "characters")),
    _Pair("zh", "Chinese", 2017, ("8k", "32k"), shared=False),
)


def _register(pair: _Pair, vocabulary: str) -> None:
    described, attributes = _VOCABULARIES[vocabulary]
    summary = f"WMT {pair.year} news translation, English to {pair.language} ({pair.size}{described})."
    characters = vocabulary == "characters"
    if pair.of_2017:
        name = f"wmt_en{pair.code}_{'characters' if characters else f'tokens_{vocabulary}'}"
    else:
        name = f"translate_en{pair.code}_wmt{'_characters' if characters else vocabulary}"
    attributes = {
        "__doc__": summary,
        "__module__": __name__,
        "target_language": pair.code,
        "dataset": f"wmt{pair.year % 100}_translate/{pair.code}-en",
        **({} if pair.shared else {"shared_vocabulary": False}),
        **attributes,
    }
    register_problem(name)(type(name, (WmtTranslation,), attributes))


for _pair in _PAIRS:
    for _vocabulary in _pair.vocabularies:
        _register(_pair, _vocabulary)
