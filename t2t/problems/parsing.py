"""Constituency parsing as translation from a sentence to the labels of its tree (Vaswani et al. 2017, section 6.3).

One instance, of the tree (TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs)))):
    inputs   A dog runs
    targets  S NP DT NN /NP VP VBZ /VP /S

`wsj_parsing`: Wall Street Journal of the Penn Treebank (Marcus et al. 1993), sections 02-21 train (about 40,000 trees),
22 dev (1,700), 23 test (2,416). Source: Linguistic Data Consortium, LDC99T42. Licence: its user agreement, so nothing
is downloaded. `wsj_parsing_semi` adds trees made by another parser, like the high-confidence and BerkeleyParser corpora
of Vinyals et al. 2015. `parsing_trees` reads the files of any treebank, under its own licence.

Outputs are converted to trees over exactly the words of the input; these trees are scored.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t.errors import UserError
from t2t.features.feature import Feature
from t2t.features.text import Text
from t2t.features.tree import Tree
from t2t.features.treebank_reading import read_samples
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.options import file_option
from t2t.problems.text_problems import Text2Text, TextOptions
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN, UNK_ID


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParsingOptions(TextOptions):
    """Options of every parsing problem."""

    keep_annotations: bool = False
    """Keeps traces, empty elements and function tags in the trees."""


class Parsing(Text2Text):
    """Base class of parsing problems: pieces of words as inputs, a word list of labels for targets."""

    options_class = ParsingOptions
    shared_vocabulary = False
    vocab_size = 16_384
    nominal_labels = 128
    """About the number of labels in a treebank without function tags, ends of phrases included."""
    max_length = 512
    single_spaces = True
    finishes = True
    metrics = (
        "bracket_f1_gold_tags", "bracket_f1", "bracket_precision", "bracket_recall", "bracket_exact_match",
        "bracket_tagging_accuracy", "bracket_errors",
    )  # fmt: skip

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A sentence and its tree."""
        words = Text(self.vocab_kind, self.vocab_size, shared=False, single_spaces=True, tells_words=True,
                     sample_bytes=self.vocab_sample_bytes)  # fmt: skip
        return {INPUTS: words, TARGETS: Tree(size=self.nominal_labels).with_options(self.options)}

    def tree_files(self, split: str, tmp_dir: Path) -> Sequence[Path]:
        """Returns the files of a split, in order.

        Raises:
            UserError: they do not exist; the message says which are needed.
        """
        raise NotImplementedError

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files of trees, and those of the option `vocab_file`."""
        found = super().raw_files(tmp_dir)
        for split in self.splits:
            with contextlib.suppress(UserError):  # once data is generated, the raw files need not exist
                found |= {f"{split} trees {n}": path for n, path in enumerate(self.tree_files(split, tmp_dir))}
        return found

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the sentences of the trees, and their labels; see `read_samples`."""
        self.check_split(split)
        return self._samples_of(self.tree_files(split, Path(context.tmp_dir)), context)

    def _samples_of(self, files: Sequence[Path], context: GenerationContext) -> Iterator[Sample]:
        encoder = self.encoders.get(TARGETS)
        known = None
        if encoder is not None:
            known = {encoder.piece(number) for number in range(UNK_ID + 1, encoder.vocab_size)}
        return read_samples(files, context.tally, self.options.keep_annotations, known)


@register_problem
class WsjParsing(Parsing):
    """English sentences to their trees, sections 02-21 of the Wall Street Journal, 16k pieces."""

    splits = (TRAIN, DEV, TEST)
    sections = {TRAIN: range(2, 22), DEV: (22,), TEST: (23,)}

    def tree_files(self, split: str, tmp_dir: Path) -> Sequence[Path]:
        """Returns the file of trees of a split or, without one, the treebank's own files of its sections."""
        for name in (f"wsj_{split}.trees", f"wsj_{split}.trees.gz"):
            if (tmp_dir / name).is_file():
                return [tmp_dir / name]
        for folder in ("wsj", "parsed/mrg/wsj", "treebank_3/parsed/mrg/wsj", "TREEBANK_3/PARSED/MRG/WSJ", "."):
            files = [sorted((tmp_dir / folder / f"{section:02d}").glob("*.mrg*")) for section in self.sections[split]]
            if all(files):
                return [path for of_section in files for path in of_section]
        raise UserError(
            f"problem {self.name}, split {split}: the trees are missing from --tmp_dir={tmp_dir}",
            f"{self.requirements()}",
        )

    def requirements(self) -> str:
        """Returns which files a user must provide."""
        return (
            "put into --tmp_dir the treebank's folder wsj/ with the sections 02 to 23 (wsj/02/wsj_0201.mrg, ...), or "
            "files wsj_train.trees, wsj_dev.trees and wsj_test.trees with a tree a line, plain or .gz"
        )


@register_problem
class WsjParsingSemi(WsjParsing):
    """English sentences to their trees, wsj_parsing's and further ones that a parser made, 32k pieces."""

    vocab_size = 32_768

    def tree_files(self, split: str, tmp_dir: Path) -> Sequence[Path]:
        """Returns the files of `wsj_parsing`, followed, for training, by those in the folder semi/."""
        files = list(super().tree_files(split, tmp_dir))
        if split != TRAIN:
            return files
        more = [path for path in sorted((tmp_dir / "semi").glob("*")) if path.is_file()]
        if not more:
            raise UserError(
                f"problem {self.name}: further trees are missing from {tmp_dir / 'semi'}", f"{self.requirements()}"
            )
        return files + more

    def requirements(self) -> str:
        """Returns which files a user must provide."""
        return f"{super().requirements()}; and in a folder semi/ files of the further trees"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeFilesOptions(ParsingOptions):
    """The files of the trees."""

    train_trees: str = file_option(many=True)
    """File with the training trees, in Penn brackets, plain or .gz."""
    dev_trees: str = file_option(many=True)
    """File with the trees that training is evaluated on."""
    test_trees: str = file_option(many=True)
    """File with the trees of the test split; optional."""


@register_problem
class ParsingTrees(Parsing):
    """Any treebank: files of trees, given by --train_trees, --dev_trees and --test_trees."""

    options_class = TreeFilesOptions

    def __init__(self, **options: Any):
        super().__init__(**options)
        if self.options.test_trees:
            self.splits = (TRAIN, DEV, TEST)

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of files of a split."""
        return len(self.tree_files(split, Path(context.tmp_dir)))

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the sentences of the trees of a split, or of one of its files, and their labels."""
        self.check_split(split)
        files = self.tree_files(split, Path(context.tmp_dir))
        return self._samples_of(files if context.shards == 1 else files[context.shard : context.shard + 1], context)

    def tree_files(self, split: str, tmp_dir: Path) -> Sequence[Path]:
        """Returns the files that the options name for the split."""
        if not getattr(self.options, f"{split}_trees"):
            raise UserError(f"problem {self.name}: --{split}_trees is not given", f"{self.requirements()}")
        files: list[Path] = self.options.paths(f"{split}_trees")
        return files

    def requirements(self) -> str:
        """Returns which files a user must name."""
        return "name files of trees with --train_trees and --dev_trees, and --test_trees where there are some"
