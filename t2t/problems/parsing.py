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
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from t2t.errors import UserError
from t2t.problems.base import Finished, Sample, Source
from t2t.problems.filters.sample_filter import SampleFilter
from t2t.problems.filters.text_filters import text_filters
from t2t.problems.options import file_option
from t2t.problems.text_problems import TextOptions, TextProblem
from t2t.problems.treebank.linearisation import is_end, restored, words_of
from t2t.problems.treebank.reading import has_two_uses, labels_of_output, main_uses, read_samples, uses_as_known
from t2t.registry import register_problem
from t2t.specs.constants import DEV, INPUTS, TARGETS, TEST, TRAIN, UNK_ID
from t2t.specs.constraints.trees import TreeConstraint, TreeLabels
from t2t.specs.features import ProblemSpec
from t2t.text.encoder import TextEncoder
from t2t.text.token import TokenEncoder


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParsingOptions(TextOptions):
    """Options of every parsing problem."""

    keep_annotations: bool = False
    """Keeps traces, empty elements and function tags in the trees."""


class Parsing(TextProblem):
    """Base class of parsing problems: pieces of words as inputs, a word list of labels for targets."""

    options_class = ParsingOptions
    shared_vocabulary = False
    vocab_size = 16_384
    nominal_labels = 128
    """About the number of labels in a treebank without function tags, ends of phrases included; see `nominal_spec`."""
    max_length = 512
    single_spaces = True
    metrics = (
        "bracket_f1_gold_tags", "bracket_f1", "bracket_precision", "bracket_recall", "bracket_exact_match",
        "bracket_tagging_accuracy", "bracket_errors",
    )  # fmt: skip
    finishes = True

    def nominal_vocab_size(self, feature: str) -> int:
        """The size of the vocabulary of pieces, or of labels."""
        return self.nominal_labels if feature == TARGETS else super().nominal_vocab_size(feature)

    def word_starts(self, feature: str) -> str:
        """Returns which ids begin words: in sentences, as given by their vocabulary; in trees, the tags."""
        encoder = self.encoders[feature]
        if feature == INPUTS:
            return encoder.word_starts()
        tags = set(tree_labels(encoder).tags)
        return "".join(str(int(label in tags)) for label in range(encoder.vocab_size))

    def nominal_spec(self) -> ProblemSpec | None:
        """As for other problems, with word starts as if each id began a word."""
        spec = super().nominal_spec()
        if spec is None:
            return None
        features = {name: dataclasses.replace(f, word_starts="1" * f.vocab_size) for name, f in spec.features.items()}
        return dataclasses.replace(spec, features=features)

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

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the sentences of the trees, and their labels; see `read_samples`."""
        self.check_split(split)
        return self._samples_of(self.tree_files(split, Path(source.tmp_dir)), source)

    def _samples_of(self, files: Sequence[Path], source: Source) -> Iterator[Sample]:
        encoder = self.encoders.get(TARGETS)
        known = None
        if encoder is not None:
            known = {encoder.piece(number) for number in range(UNK_ID + 1, encoder.vocab_size)}
        return read_samples(files, source.tally, self.options.keep_annotations, known)

    @property
    def vocab_features(self) -> tuple[str, ...]:
        """The sentences: that of the labels lists those of the trees."""
        return (INPUTS,)

    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Learns the pieces of words from the sentences, or reads the given ones; lists the labels of all splits.

        No label is left out: a word list cannot spell unknown labels, and a tree with one could not be written. But a
        label is either of phrases or of words; trees with the rarer use are skipped.
        """
        label_list, names = self._label_list(source), self.vocab_features
        known = self._fixed_encoders(names) or {INPUTS: self._learn(names, source)}
        return {**known, TARGETS: label_list}

    def sample_filters(self) -> Sequence[SampleFilter]:
        """The filters of the sentence that the options ask for; labels of trees are not its words.

        Raises:
            UserError: a filter needs two texts.
        """
        return tuple(text_filters(self.options, (INPUTS,), {INPUTS: self.source_language}))

    def _label_list(self, source: Source) -> TokenEncoder:
        """Returns the labels of the training trees, most frequent first, then those that only other splits have."""
        counts = self._count_labels(source)
        total = sum(counts.values(), Counter())
        if has_two_uses(total):
            counts = self._count_labels(source, main_uses(total))
        train = counts.pop(TRAIN)
        if not train:
            raise UserError(f"problem {self.name}: the training trees have no label; check the files")
        others = set().union(*counts.values()) - set(train)
        return TokenEncoder([*sorted(train, key=lambda label: (-train[label], label)), *sorted(others)])

    def _count_labels(self, source: Source, known: Container[str] | None = None) -> dict[str, Counter[str]]:
        """Counts labels and ends of phrases by split, in trees that `uses_as_known` if that is given."""
        counts: dict[str, Counter[str]] = {split: Counter() for split in self.splits}
        for split, of_split in counts.items():
            for sample in self.generate_samples(split, Source(source.tmp_dir, source.rng)):
                if known is None or uses_as_known(sample[TARGETS], known):
                    of_split.update(sample[TARGETS].split())
        return counts

    def finish(self, source: str, output: str) -> Finished:
        """Returns a tree in brackets over exactly the words of the source, whatever labels the output has."""
        words = words_of(source)
        if not words:
            return Finished("")
        encoder = self.encoders[TARGETS]
        phrases = {encoder.piece(begin) for begin, _ in tree_labels(encoder).phrases}
        tree = restored(words, output, phrases)
        return Finished(str(tree), tree.repaired)

    def read_target(self, text: str, source: str | None = None) -> str:
        """Returns the labels of a tree in brackets; labels stay as they are."""
        return labels_of_output(text, source, self.options.keep_annotations) if text.lstrip().startswith("(") else text

    def constraint(self, source: str) -> TreeConstraint:
        """Constrains the output to the labels of a tree over exactly the words of the source."""
        return TreeConstraint(tree_labels(self.encoders[TARGETS]), len(words_of(source)))


@functools.lru_cache(maxsize=8)
def tree_labels(encoder: TextEncoder) -> TreeLabels:
    """Returns the labels of a vocabulary: those with an end (`/NP`) in it are of phrases, the others are tags."""
    ids = {encoder.piece(number): number for number in range(UNK_ID + 1, encoder.vocab_size)}
    phrases = {ids[piece[1:]]: number for piece, number in ids.items() if is_end(piece) and piece[1:] in ids}
    others = {number for piece, number in ids.items() if is_end(piece)} | phrases.keys()
    return TreeLabels(tuple(number for number in ids.values() if number not in others), tuple(phrases.items()))


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
            f"problem {self.name}, split {split}: the trees are missing from --tmp_dir={tmp_dir}; {self.requirements()}"
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
                f"problem {self.name}: further trees are missing from {tmp_dir / 'semi'}; {self.requirements()}"
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

    def shards(self, split: str, source: Source) -> int:
        """Returns the number of files of a split."""
        return len(self.tree_files(split, Path(source.tmp_dir)))

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the sentences of the trees of a split, or of one of its files, and their labels."""
        self.check_split(split)
        files = self.tree_files(split, Path(source.tmp_dir))
        return self._samples_of(files if source.shards == 1 else files[source.shard : source.shard + 1], source)

    def tree_files(self, split: str, tmp_dir: Path) -> Sequence[Path]:
        """Returns the files that the options name for the split."""
        if not getattr(self.options, f"{split}_trees"):
            raise UserError(f"problem {self.name}: --{split}_trees is not given; {self.requirements()}")
        files: list[Path] = self.options.paths(f"{split}_trees")
        return files

    def requirements(self) -> str:
        """Returns which files a user must name."""
        return "name files of trees with --train_trees and --dev_trees, and --test_trees where there are some"
