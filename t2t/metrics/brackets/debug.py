"""What EVALB prints of each sentence in its debug modes: every word and bracket (1), and what did not match (2).

Of mode 2, the brackets that did not match are printed; EVALB's dumps of its own variables are not.
"""

import itertools
from collections.abc import Iterator

from t2t.metrics.brackets.compare import Comparison
from t2t.metrics.brackets.sentence import Bracket, Word


def mismatch_lines(comparison: Comparison) -> Iterator[str]:
    """Yields an empty line, then a line for each bracket that is missing, surplus, labelled otherwise or crossed."""
    yield ""
    for mismatch, sentence, bracket in comparison.mismatches:
        text = sentence.text[bracket.text_start : bracket.text_end]
        yield f"  {mismatch}[{bracket.start}-{bracket.end - 1}]: {text}"


def word_and_bracket_lines(comparison: Comparison) -> Iterator[str]:
    """Yields two tables, gold on the left and test on the right: words with their tags, brackets with their spans."""
    gold, test = comparison.gold, comparison.test
    yield (
        f"-<1>---(wn1={len(gold.words):3d}, bn1={len(gold.brackets):3d})-           "
        f"-<2>---(wn2={len(test.words):3d}, bn2={len(test.brackets):3d})-"
    )
    for number, (one, other) in enumerate(itertools.zip_longest(gold.words, test.words)):
        left = f"{_word(number, one)}      " if one and one.word else " " * 40
        yield left + (_word(number, other) if other and other.word else "")
    yield ""
    for number, (one, other) in enumerate(itertools.zip_longest(gold.brackets, test.brackets)):
        left = f"{_bracket(number, one)}      " if one else " " * 32
        yield left + (_bracket(number, other) if other else "")
    yield ""
    yield "========"


def _word(number: int, word: Word) -> str:
    return f"{number:3d} : {word.result:d} : {_padded(word.tag, 6)}  {_padded(word.word, 16)}"


def _bracket(number: int, bracket: Bracket) -> str:
    return f"{number:3d} : {bracket.result:d} : {bracket.start:3d}  {bracket.end:3d}  {_padded(bracket.label, 6)}"


def _padded(text: str, width: int) -> str:
    """Pads to a width in bytes, as C does."""
    return text + " " * (width - len(text.encode("utf-8", errors="surrogatepass")))
