"""Language modelling: text without inputs; each line or paragraph is an example.

One instance of `languagemodel_wikitext103`:
    targets  The lobster has a large body and strong claws , and lives on rocky ground .

`languagemodel_files` reads the user's own text, with its own source and licence.

`languagemodel_wikitext2` and `languagemodel_wikitext103`: articles of Wikipedia, 2 and 103 million words. An example is
a paragraph or heading, with the words as in the files (`wiki.train.tokens` and so on). Their perplexity is per word;
papers also count the ends of empty lines, which are left out here. Source: Merity et al. 2016, "Pointer sentinel
mixture models" (arXiv:1609.07843). Licence: CC BY-SA 3.0.

`languagemodel_ptb10k` and `languagemodel_ptb_characters`: the Penn Treebank's Wall Street Journal in 10,000 words, a
sentence a line, from `ptb.train.txt` and so on; 0.9 million words. Source: Marcus et al. 1993, in the form of Mikolov
et al. 2010, "Recurrent neural network based language model" (`simple-examples.tgz`). Licence: of the Linguistic Data
Consortium.

`languagemodel_lm1b32k`: 30 million sentences of news in shuffled order. Source: Chelba et al. 2013, "One
billion word benchmark" (arXiv:1312.3005), its own folder or TensorFlow Datasets (`lm1b`). Their dev and test splits
differ, so scores are not comparable: of the folder, dev and test are held-out files 1 and 0 of 50; of TensorFlow
Datasets, the first 2% of all held-out sentences and the other 98%. Licence: Apache 2.0 of the corpus's scripts; the
text is that of WMT 2011.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from t2t.errors import UserError
from t2t.files.lines import clean_line, read_lines
from t2t.hparams.field import param
from t2t.problems.archives import find_first_existing
from t2t.problems.base import GenerationContext, Sample, subclass
from t2t.problems.split_files import FilesAndTextOptions, NamedFiles, blocks_to_read, count_blocks
from t2t.problems.text_problems import Text2Self
from t2t.problems.tfds import TfdsSplit, tfds_requirement
from t2t.registry import register_problem
from t2t.specs import DEV, TARGETS, TEST, TRAIN

_LONGEST = 1024  # paragraphs are longer than sentences
_CUT = 512  # what the hparams sets of language models learn from
_LM1B = "1-billion-word-language-modeling-benchmark-r13output"
_LM1B_PARTS = {
    TRAIN: ("training-monolingual.tokenized.shuffled", "news.en-000*-of-00100"),
    DEV: ("heldout-monolingual.tokenized.shuffled", "news.en.heldout-00001-of-00050"),
    TEST: ("heldout-monolingual.tokenized.shuffled", "news.en.heldout-00000-of-00050"),
}
_LM1B_TFDS = {TRAIN: "train", DEV: "test[:2%]", TEST: "test[2%:]"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguagemodelFilesOptions(FilesAndTextOptions):
    """The files, and how long their examples are."""

    cut_length: int = param(
        _CUT, "Longest example of languagemodel_files, in ids with end of sequence: longer texts are cut into equal "
        "parts.", minimum=2,
    )  # fmt: skip


@register_problem("languagemodel_files")
class LanguagemodelFiles(NamedFiles, Text2Self):
    """Your own text, given by --train_file and --dev_file: a text a line, empty lines left out; long ones are cut."""

    line_form = "a text"
    max_length = _LONGEST
    options_class = LanguagemodelFilesOptions

    @property
    def cut_length(self) -> int:
        """That of the option."""
        return int(self.options.cut_length)

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the lines of a split; see `lines`."""
        for _, line in self.lines(split, context):
            yield {TARGETS: line.strip()}


class Wikitext(Text2Self):
    """Base class of both sizes of WikiText, and of other texts in three files."""

    splits = (TRAIN, DEV, TEST)
    vocab_kind = "token"
    max_length = _LONGEST
    folder: ClassVar[str] = ""
    """Folder under `--tmp_dir` in which the files are looked for."""
    files: ClassVar[tuple[str, ...]] = ("{folder}/wiki.{word}.tokens", "{folder}/{word}.txt")
    """Possible names of the file of a split, of which `word` is train, valid or test."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        if self.vocab_kind == "token":
            self.vocab_sample_bytes = 1 << 40  # every word counts

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the paragraphs and headings of a split, in the order of the file."""
        self.check_split(split)
        files = {other: self._file(context.tmp_dir, other) for other in self.splits}
        missing = [self._names(other)[0] for other, file in files.items() if file is None]
        if missing:
            raise UserError(
                f"{self.name}: {', '.join(missing)} missing from {context.tmp_dir}; put them there (with or without "
                ".gz)",
                f"it needs {self.requirements()}",
            )
        path = files[split]
        assert path is not None, "none is missing"
        for line in read_lines(path, context.tally):
            if text := " ".join(line.split()):
                yield {TARGETS: text}

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files that exist, by their splits."""
        files = {f"{split} text": self._file(tmp_dir, split) for split in self.splits}
        return super().raw_files(tmp_dir) | {name: path for name, path in files.items() if path}

    def requirements(self) -> str:
        """Returns the names of the files."""
        return f"{', '.join(self._names(split)[0] for split in self.splits)} in --tmp_dir, with or without .gz"

    def _names(self, split: str) -> list[str]:
        word = {TRAIN: "train", DEV: "valid", TEST: "test"}[split]
        return [file.format(folder=self.folder, word=word) + end for file in self.files for end in ("", ".gz")]

    def _file(self, tmp_dir: Path, split: str) -> Path | None:
        return find_first_existing(tmp_dir, self._names(split))


@register_problem("languagemodel_lm1b32k")
class LanguagemodelLm1b32k(Text2Self):
    """Sentences of news (One Billion Word, 30 million sentences, 32k pieces)."""

    splits = (TRAIN, DEV, TEST)
    vocab_size = 2**15

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of shards of the corpus's own files or, without them, of files in TensorFlow Datasets."""
        if files := self._checked_files(split, context):
            return count_blocks(lambda: files, split, context)
        return TfdsSplit(self.name, "lm1b", _LM1B_TFDS[split], context, self._instead(context)).count_shards()

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the sentences of a split, from the corpus's own folder if it exists, else through TFDS."""
        self.check_split(split)
        if files := self._checked_files(split, context):
            for (block,) in blocks_to_read(lambda: files, split, context):
                yield from ({TARGETS: line.strip()} for line in block.read(context.tally))
            return
        for example in TfdsSplit(self.name, "lm1b", _LM1B_TFDS[split], context, self._instead(context)).read():
            yield {TARGETS: clean_line(example["text"], context.tally).strip()}

    def _checked_files(self, split: str, context: GenerationContext) -> list[tuple[Path]]:
        """Returns the corpus's own files of a split; empty without its folder."""
        files = self._files(context.tmp_dir, split)
        if not files and (Path(context.tmp_dir) / _LM1B).is_dir():
            raise UserError(
                f"{self.name}: {'/'.join(_LM1B_PARTS[split])} missing from {_LM1B}", "unpack its archive again"
            )
        return [(path,) for path in files]

    def _instead(self, context: GenerationContext) -> str:
        return f"; or unpack {_LM1B}.tar.gz in {context.tmp_dir}"

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files that exist."""
        files = [path for split in self.splits for path in self._files(tmp_dir, split)]
        return super().raw_files(tmp_dir) | {path.name: path for path in files}

    def requirements(self) -> str:
        """Returns which folder is looked for, and what else is read."""
        return f"{_LM1B} in --tmp_dir; else {tfds_requirement('lm1b')}"

    def _files(self, tmp_dir: Path, split: str) -> list[Path]:
        folder, pattern = _LM1B_PARTS[split]
        return sorted((Path(tmp_dir) / _LM1B / folder).glob(pattern))


_WIKITEXT103: dict[str, Any] = {"folder": "wikitext-103", "vocab_size": 267_736}
_PTB: dict[str, Any] = {
    "folder": "simple-examples/data", "files": ("{folder}/ptb.{word}.txt", "ptb.{word}.txt"), "vocab_size": 10_001,
}  # fmt: skip
_PROBLEMS: tuple[tuple[str, str, type[Text2Self], dict[str, Any]], ...] = (
    ("wikitext2", "Articles of Wikipedia (WikiText-2, 2 million words of 33,276).",
     Wikitext, {"folder": "wikitext-2", "vocab_size": 33_279}),
    ("wikitext103", "Articles of Wikipedia (WikiText-103, 103 million words of 267,733).", Wikitext, _WIKITEXT103),
    ("wikitext103_characters", "Articles of Wikipedia (WikiText-103, 540 million bytes).",
     Wikitext, {**_WIKITEXT103, "vocab_kind": "byte", "max_length": 4096}),
    ("ptb10k", "Sentences of the Wall Street Journal (Penn Treebank, 0.9 million words of 10,000).", Wikitext, _PTB),
    ("ptb_characters", "Sentences of the Wall Street Journal (Penn Treebank, 5 million bytes).",
     Wikitext, {**_PTB, "vocab_kind": "byte"}),
    ("lm1b8k", "Sentences of news (One Billion Word, 30 million sentences, 8k pieces).",
     LanguagemodelLm1b32k, {"vocab_size": 2**13}),
    ("lm1b_characters", "Sentences of news (One Billion Word, 30 million sentences, bytes).",
     LanguagemodelLm1b32k, {"vocab_kind": "byte", "max_length": 1024}),
)  # fmt: skip
"""Name without `languagemodel_`, summary, base class and attributes of each. A size is that of the words (9,998 in the
Penn Treebank), and of the ids of padding, end of sequence and unknown words."""

for _name, _summary, _base, _attributes in _PROBLEMS:
    _name = f"languagemodel_{_name}"
    register_problem(_name)(subclass(_base, _name, _summary, __name__, **_attributes))
