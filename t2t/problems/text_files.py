"""One's own corpus: pairs of text files named on the command line, no code needed.

One instance, of files with one sentence a line:
    inputs   Where is the station?          (line n of --train_source)
    targets  Wo ist der Bahnhof?            (line n of --train_target)

Source and licence are those of the user's files.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from t2t.files.line_blocks import read_pairs
from t2t.problems.base import Sample, Source, file_option
from t2t.problems.split_files import NamedFiles
from t2t.problems.text_problems import TextOptions
from t2t.problems.translation import Translation
from t2t.registry import register_problem
from t2t.specs.constants import INPUTS, TARGETS


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFilesOptions(TextOptions):
    """Where the files are."""

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
    """Code of the target language, e.g. zh; optional. BLEU splits words as it asks for."""


@register_problem("text2text_files")
class Text2TextFiles(NamedFiles, Translation):
    """Your own two text files, told by --train_source, --train_target, --dev_source, --dev_target."""

    name = "text2text_files"
    options_class = TextFilesOptions
    file_sides = ("source", "target")

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.source_language = self.options.source_language
        self.target_language = self.options.target_language

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the pairs of lines of a split, or of one shard of it, in the files' order."""
        for sides in self.blocks(split, source):
            for source_line, target_line in read_pairs(sides, source.tally):
                yield {INPUTS: source_line, TARGETS: target_line}

    def requirements(self) -> str:
        """Returns which flags name which files."""
        return (
            f"{super().requirements()}: text files with one text a line, plain or .gz; several, with commas between "
            f"them or as a pattern, where both sides have as many"
        )
