"""English to German phrases about numbers: counting, ordinals, dates, clock times, prices, quantities, measures.

    inputs   "the train leaves at twenty-five past six"
    targets  "der Zug fährt um fünf vor halb sieben ab"

    inputs   "three euros and fifty cents"
    targets  "drei Euro fünfzig"

    inputs   "we got married on the third of March nineteen eighty-four"
    targets  "wir haben am dritten März neunzehnhundertvierundachtzig geheiratet"

The phrases come from grammars written for this project (`t2t.problems.number_grammar`); no licence is needed. Every
English phrase has exactly one translation, so that exact match is a fair score.
"""

import zlib
from collections.abc import Iterator
from itertools import cycle

from t2t.constants import DEV, TEST, TRAIN
from t2t.problems.base import Sample, Source
from t2t.problems.number_grammar import KINDS
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem

LONGEST_PHRASE = 12
"""Words; longer English phrases are drawn again."""


@register_problem
class TranslateEndeNumbers(Text2Text):
    """English to German phrases about numbers, dates, times and prices, from grammars; learnt in minutes."""

    splits = (TRAIN, DEV, TEST)
    sizes = {TRAIN: 50_000, DEV: 1_000, TEST: 1_000}
    """Number of phrases of each split, the kinds of phrases taking turns."""
    vocab_size = 1024
    max_length = 128
    metrics = ("accuracy_per_sequence", "bleu", "accuracy")

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields phrases that differ from one another and belong to the split."""
        seen = set()
        for _, draw in zip(range(self.sizes[split]), cycle(KINDS.values()), strict=False):
            phrase = draw(source.rng)
            while phrase.english in seen or split_of(phrase.english) != split or _is_long(phrase.english):
                phrase = draw(source.rng)
            seen.add(phrase.english)
            yield {"inputs": phrase.english, "targets": phrase.german}


def split_of(english: str) -> str:
    """Returns the only split in which a phrase may occur: by its hash, 5 % each go to dev and test.

    A single word (`seventeen`, `twenty-one`) is always for training: what it means cannot be put together from parts.
    """
    if " " not in english:
        return TRAIN
    return {0: DEV, 1: TEST}.get(zlib.crc32(english.encode()) % 20, TRAIN)


def _is_long(english: str) -> bool:
    return english.count(" ") >= LONGEST_PHRASE
