"""Translation of your own corpus: pairs of text files named on the command line, no code needed.

One instance, of files with one sentence a line:
    inputs   Where is the station?          (line n of --train_source)
    targets  Wo ist der Bahnhof?            (line n of --train_target)

Source and licence are those of the user's files.

Classification of your own texts, no code needed.

One instance, of a file with a class, a TAB and a text on each line:
    inputs   an idle picture that wears its heart on its sleeve
    targets  bad

The classes are those that occur in the training file. Source and licence are those of the user's files.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from t2t.errors import UserError
from t2t.files.line_blocks import read_pairs
from t2t.files.lines import pair_lines
from t2t.hparams.field import param
from t2t.problems.filters import BY_WEIGHT, draw_copies, parse_score, parse_weights, score_filter
from t2t.problems.options import file_option
from t2t.problems.samples import GenerationContext, Sample, SampleFilter, SampleRecord
from t2t.problems.split_files import Blocks, Line, NamedFiles
from t2t.problems.text_problems import Text2Class, Text2Text, TextOptions
from t2t.registry import register_problem
from t2t.specs import INPUTS, TARGETS, TRAIN
from t2t.text.label import LabelEncoder, listed


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFilesOptions(TextOptions):
    """The files, and which of the training pairs to use."""

    train_source: str = file_option(many=True)
    """File with the source side of the training pairs, one text a line, plain or .gz."""
    train_target: str = file_option(many=True)
    """File with the target side of the training pairs."""
    dev_source: str = file_option(many=True)
    """File with the source side of the pairs that training is evaluated on."""
    dev_target: str = file_option(many=True)
    """File with the target side of the pairs that training is evaluated on."""
    test_source: str = file_option(many=True)
    """File with the source side of the test pairs; optional."""
    test_target: str = file_option(many=True)
    """File with the target side of the test pairs; optional."""
    source_language: str = ""
    """Code of the source language, e.g. en; optional."""
    target_language: str = ""
    """Code of the target language, e.g. zh; optional. BLEU chooses its tokenizer by it."""
    train_scores: str = file_option(many=True)
    """File with a score of each training pair, line by line; optional."""
    train_score_column: int = param(1, "Column of the score in --train_scores, where TABs separate columns.", minimum=1)
    filter_min_score: float = param(0.0, "Drops training pairs with a lower score in --train_scores.")
    train_weights: str = ""
    """How many times to use the pairs of each training file, e.g. 1,0.5,20; optional."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, default in (("filter_min_score", 0.0), ("train_score_column", 1)):
            if (value := getattr(self, name)) != default and not self.train_scores:
                raise UserError(
                    "there are no scores",
                    "name their file with --train_scores, or leave it out",
                    option=name,
                    value=f"{value:g}",
                )


@register_problem("text2text_files")
class Text2TextFiles(NamedFiles, Text2Text):
    """Your own two text files, given by --train_source, --train_target, --dev_source, --dev_target."""

    name = "text2text_files"
    translates = True
    options_class = TextFilesOptions
    file_sides = ("source", "target")

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.source_language = self.options.source_language
        self.target_language = self.options.target_language

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample | SampleRecord]:
        """Yields the pairs of lines of a split, or of one shard of it, in the files' order.

        Training samples have a score if there are score files, and a number of copies if there are weights.
        """
        weights = self._weights() if split == TRAIN else {}
        for sides in self.blocks(split, context):
            pairs, weight = self._pairs(sides, context), weights.get(tuple(block.path for block in sides))
            if weight is None:
                yield from (pair if pair.score is not None else pair.features for pair in pairs)
            else:
                yield from (pair._replace(copies=draw_copies(weight, context.rng)) for pair in pairs)

    def _pairs(self, sides: Blocks, context: GenerationContext) -> Iterator[SampleRecord]:
        pairs = read_pairs(sides[:2], context.tally)
        if len(sides) == 2:
            yield from (SampleRecord({INPUTS: inputs, TARGETS: targets}) for inputs, targets in pairs)
            return
        scores, column = sides[2], self.options.train_score_column
        lines = pair_lines(pairs, scores.read(context.tally), sides[0].path, scores.path, scores.first - 1)
        for number, ((inputs, targets), line) in enumerate(lines, scores.first):
            score = parse_score(line, column, f"{scores.path}, line {number:,}")
            yield SampleRecord({INPUTS: inputs, TARGETS: targets}, score)

    def sample_filters(self) -> Sequence[SampleFilter]:
        """The filters by score and weight, then those of every text problem."""
        scores = (score_filter(self.options.filter_min_score),) if self.options.train_scores else ()
        weights = (BY_WEIGHT,) if self._weights() else ()
        return (*scores, *weights, *super().sample_filters())

    def parallel_options(self, split: str) -> list[str]:
        """Returns the options with the source, the target and, for training, the scores if there are any."""
        return super().parallel_options(split) + ["train_scores"] * (split == TRAIN and bool(self.options.train_scores))

    def _named_files(self) -> dict[str, Path]:
        return {**super()._named_files(), **self.options.numbered_paths("train_scores")}

    def _weights(self) -> dict[tuple[Path, ...], float]:
        """Returns the weight of each entry of `files_of` the training split; empty without weights.

        Raises:
            UserError: an entry is repeated, or as `parse_weights`.
        """
        if not self.options.train_weights:
            return {}
        files = self.files_of(TRAIN)
        weights = parse_weights(self.options.train_weights, [source.name for source, *_ in files])
        if repeated := [entry for entry, count in Counter(files).items() if count > 1]:
            raise UserError(
                f"{' and '.join(path.name for path in repeated[0])} are named more than once as training files",
                "name them once, with the sum of their weights",
                option="train_weights",
                value=self.options.train_weights,
            )
        return dict(zip(files, weights, strict=True))

    def requirements(self) -> str:
        """Returns which flags name which files."""
        return (
            f"{super().requirements()}: text files with one text a line, plain or .gz; several, with commas between "
            f"them or as a pattern, where both sides have as many"
        )


def check_label(problem: NamedFiles, line: Line, label: str) -> None:
    """Raises UserError if a label is empty or not a class of the training file."""
    known = problem.encoders.get(TARGETS)
    names = known.names if isinstance(known, LabelEncoder) else ()
    if not label or (names and label not in names):
        those = f", which is not one of the training file's ({listed(names)})" if names else ""
        raise problem.line_error(line, f"has class {label!r}{those}")


@register_problem
class ClassifyFiles(NamedFiles, Text2Class):
    """Your own texts to your own classes, given by --train_file and --dev_file: lines of class TAB text."""

    line_form = "a class, a TAB and a text"

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the lines of a split, in the order of the files."""
        for line, label, text in self.columns_of(split, context):
            check_label(self, line, label)
            yield {INPUTS: text, TARGETS: label}
