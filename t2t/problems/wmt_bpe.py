"""WMT 2014 English to German in the paper's own pieces: byte-pair encoding with a vocabulary of about 37,000.

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

from t2t.files.lines import read_lines
from t2t.problems.base import Source
from t2t.problems.translation import TranslationFiles, locate
from t2t.registry import register_problem
from t2t.specs.constants import DEV, TEST, TRAIN
from t2t.text.encoder import TextEncoder
from t2t.text.word_list import RESERVED, UNKNOWN, WordListEncoder

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

    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Reads the vocabulary of the archive, unless the options choose another one."""
        if not self._takes_archives_vocabulary:
            return super().build_encoders(source)
        self.check_files(source.tmp_dir)
        path = locate(source.tmp_dir, _VOCABULARY)
        assert path is not None, "it has been checked"
        pieces = [line.strip() for line in read_lines(path, Counter())]
        return dict.fromkeys(self.text_features, WordListEncoder([*RESERVED, *pieces, UNKNOWN[0]]))

    def file_names(self) -> list[str]:
        """Returns the names of the files of pairs, and of the vocabulary, unless the options choose another one."""
        return [*super().file_names(), *([_VOCABULARY] if self._takes_archives_vocabulary else [])]

    @property
    def _takes_archives_vocabulary(self) -> bool:
        return not (self.options.vocab_file or self.options.vocab_kind or self.options.vocab_size)
