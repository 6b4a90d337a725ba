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

`wmt_ende_bpe32k` is WMT 2014 English to German in the paper's own pieces: byte-pair encoding with a vocabulary of about
37,000.

One instance, from the files that Tensor2Tensor and many others use:
    inputs   The com@@ mit@@ tee meets on Thursday .
    targets  Der Aus@@ schuss trifft sich am Donnerstag .

train: 4.5 million pairs, tokenised by Moses, with sentences of fewer than 80 words (train.tok.clean.bpe.32000); dev:
newstest2013; test: newstest2014. A piece that ends in @@ continues in the next one; pieces of outputs and references
are joined to tokenised words.
Source: Britz, Goldie, Luong and Le 2017, "Massive Exploration of Neural Machine Translation Architectures" (arXiv:
1703.03906), whose archive wmt16_en_de.tar.gz is linked from https://google.github.io/seq2seq/nmt/; Sennrich et al. 2016
for the pieces.
Licence: research use, as WMT states; each corpus has its own terms.

As in Tensor2Tensor, the vocabulary is the archive's file with <pad> and <EOS> before it and UNK after it.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

from t2t.files.lines import clean_line, read_lines
from t2t.problems.base import GenerationContext, Sample, subclass
from t2t.problems.text_problems import Text2Text
from t2t.problems.tfds import TFDS_SPLITS, TfdsSplit, tfds_requirement
from t2t.problems.translation import TranslationFiles, locate
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN
from t2t.text.encoder import TextEncoder
from t2t.text.words import RESERVED, UNKNOWN, WordListEncoder


class WmtTranslation(Text2Text):
    """Base class of the language pairs: English to another language, by default with one vocabulary for both."""

    splits = (TRAIN, DEV, TEST)
    translates = True
    source_language = "en"
    dataset: ClassVar[str] = ""
    """Name of the data set and its configuration in TensorFlow Datasets."""

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of files of a split."""
        return TfdsSplit(self.name, self.dataset, TFDS_SPLITS[split], context).count_shards()

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the pairs of a split in stored order."""
        self.check_split(split)
        for example in TfdsSplit(self.name, self.dataset, TFDS_SPLITS[split], context).read():
            sides = (clean_line(example[code], context.tally) for code in (self.source_language, self.target_language))
            yield dict(zip((INPUTS, TARGETS), sides, strict=True))

    def requirements(self) -> str:
        """Returns where the prepared data are looked for."""
        return tfds_requirement(self.dataset)


_VOCABULARIES: dict[str, tuple[str, dict[str, Any]]] = {
    "8k": ("8k pieces", {"vocab_size": 2**13}),
    "32k": ("32k pieces", {"vocab_size": 2**15}),
    "128k": ("128k pieces", {"vocab_size": 2**17}),
    # 1,024 bytes are about as long as 256 pieces of 32k; hparams sets limit lengths too: --hparams=max_length=1024
    "characters": ("bytes", {"vocab_kind": "byte", "max_length": 1024}),
}
"""By name, the words for summaries and the attributes of the problem."""

_PAIRS: tuple[tuple[str, str, int, str, str], ...] = (
    ("de", "German", 2014, "8k 32k 128k characters", "4.5 million pairs, "),
    ("fr", "French", 2014, "8k 32k 128k characters", "40 million pairs, "),
    ("cs", "Czech", 2014, "32k characters", ""),
    ("es", "Spanish", 2013, "8k 32k characters", ""),
    ("et", "Estonian", 2018, "32k characters", ""),
    ("ro", "Romanian", 2016, "8k 32k characters", ""),
    ("zh", "Chinese", 2017, "8k 32k", ""),
)
"""Code, language, year, vocabularies and, for summaries, the size of the training data of each."""

for _code, _language, _year, _kinds, _size in _PAIRS:
    for _kind in _kinds.split():
        _described, _attributes = _VOCABULARIES[_kind]
        _characters = "_characters" if _kind == "characters" else ""
        if _code in ("de", "fr"):
            _name = f"wmt_en{_code}{_characters or f'_tokens_{_kind}'}"
        else:
            _name = f"translate_en{_code}_wmt{_characters or _kind}"
        _summary = f"WMT {_year} news translation, English to {_language} ({_size}{_described})."
        _attributes = {"target_language": _code, "dataset": f"wmt{_year % 100}_translate/{_code}-en", **_attributes}
        if _code == "zh":
            _attributes["shared_vocabulary"] = False
        register_problem(_name)(subclass(WmtTranslation, _name, _summary, __name__, **_attributes))


_VOCABULARY = "vocab.bpe.32000"
_STEMS = {TRAIN: "train.tok.clean", DEV: "newstest2013.tok", TEST: "newstest2014.tok"}


@register_problem("wmt_ende_bpe32k")
class WmtEndeBpe32k(TranslationFiles):
    """WMT 2014 news translation, English to German (4.5 million pairs in the paper's 37,000 pieces)."""

    source_language, target_language = "en", "de"
    split_files = {split: (f"{stem}.bpe.32000.en", f"{stem}.bpe.32000.de") for split, stem in _STEMS.items()}
    home = "the archive wmt16_en_de.tar.gz at https://google.github.io/seq2seq/nmt/"
    vocab_kind, vocab_size = "word_list", 37_000
    continuation_mark = "@@"

    def build_encoders(self, context: GenerationContext) -> dict[str, TextEncoder]:
        """Reads the vocabulary of the archive, unless the options choose another one."""
        if not self._takes_archives_vocabulary:
            return super().build_encoders(context)
        self.check_files(context.tmp_dir)
        path = locate(context.tmp_dir, _VOCABULARY)
        assert path is not None, "it has been checked"
        pieces = [line.strip() for line in read_lines(path, Counter())]
        return dict.fromkeys(self.text_features, WordListEncoder([*RESERVED, *pieces, UNKNOWN[0]]))

    def file_names(self) -> list[str]:
        """Returns the names of the files of pairs, and of the vocabulary, unless the options choose another one."""
        return [*super().file_names(), *([_VOCABULARY] if self._takes_archives_vocabulary else [])]

    @property
    def _takes_archives_vocabulary(self) -> bool:
        return not (self.options.vocab_file or self.options.vocab_kind or self.options.vocab_size)
