"""English to German phrases about numbers: counting, ordinals, dates, clock times, prices, quantities, measures.

    inputs   "the train leaves at twenty-five past six"
    targets  "der Zug fährt um fünf vor halb sieben ab"

    inputs   "three euros and fifty cents"
    targets  "drei Euro fünfzig"

    inputs   "we got married on the third of March nineteen eighty-four"
    targets  "wir haben am dritten März neunzehnhundertvierundachtzig geheiratet"

The phrases are a part of this project, under its licence: `number_phrases/` holds a file of English TAB German for each
split. They were drawn from grammars, the seven kinds of phrases taking turns. Every English phrase has exactly one
translation, so exact match is a fair score.
"""

from collections.abc import Iterator
from pathlib import Path

from t2t.files.lines import read_lines
from t2t.problems.base import Sample, Source
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs.constants import DEV, TEST, TRAIN

PHRASES = Path(__file__).parent / "number_phrases"


@register_problem
class TranslateEndeNumbers(Text2Text):
    """English to German phrases about numbers, dates, times and prices; learnt in minutes."""

    splits = (TRAIN, DEV, TEST)
    vocab_size = 1024
    max_length = 128
    metrics = ("accuracy_per_sequence", "bleu", "accuracy")

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the 50,000 phrases of train, or the 1,000 of dev or test, in the files' order."""
        for line in read_lines(PHRASES / f"{split}.tsv.gz", source.tally):
            english, german = line.split("\t")
            yield {"inputs": english, "targets": german}
