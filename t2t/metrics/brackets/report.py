"""EVALB's report, line for line: a row for each sentence, totals, and summaries of all and of short sentences.

With DEBUG 1 it also has every word and bracket; with 2, the brackets that did not match as well, but not EVALB's dumps
of its variables.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from t2t.errors import T2TError
from t2t.metrics.brackets.compare import BracketComparison, Totals, compare_sentences, percentage
from t2t.metrics.brackets.parameters import Parameters
from t2t.metrics.brackets.sentence import Bracket, Sentence, Word, read_sentence

_RULE = "=" * 76
_HEAD = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag",
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
    _RULE,
)


class TooManyErrorsError(T2TError):
    """More errors than MAX_ERROR allows: the report ends without a summary, as EVALB's does."""


@dataclasses.dataclass(frozen=True)
class ReportLine:
    """A line of the report, without its end."""

    text: str
    is_error: bool = False
    """Whether EVALB writes it to standard error."""


def evalb_report(gold: Iterable[str], test: Iterable[str], parameters: Parameters) -> Iterator[ReportLine]:
    """Yields the report on test lines against gold lines, each as soon as it is known.

    Raises:
        TooManyErrorsError: there are more errors than `max_error` allows.
    """
    return _Report(parameters).lines(iter(gold), iter(test))


class _Report:
    def __init__(self, parameters: Parameters):
        self._parameters = parameters
        self._all, self._short = Totals(), Totals()
        self._number = 1
        self._errors = 0

    def lines(self, gold: Iterator[str], test: Iterator[str]) -> Iterator[ReportLine]:
        for text in _HEAD:
            yield ReportLine(text)
        for gold_line in gold:
            gold_sentence = read_sentence(gold_line, self._parameters)
            yield from self._faults_of(gold_sentence)
            test_line = next(test, None)
            if test_line is None:
                yield from self._error("Number of lines unmatch (too many lines in gold file)")
                break
            yield from self._sentence(gold_sentence, test_line)
            self._number += 1
        if next(test, None) is not None:
            yield from self._error("Number of lines unmatch (too many lines in test file)")
        for text in self._end():
            yield ReportLine(text)

    def _sentence(self, gold: Sentence, test_line: str) -> Iterator[ReportLine]:
        test = read_sentence(test_line, self._parameters)
        yield from self._faults_of(test)
        known = len(gold.faults) + len(test.faults)
        comparison = compare_sentences(gold, test, self._parameters)
        for fault in comparison.faults[known:]:
            yield from self._error(fault)
        for totals in (self._all, *([self._short] if gold.length <= self._parameters.cutoff_length else [])):
            totals.add(comparison.status, comparison.counts)
        if self._parameters.debug > 1:
            yield from map(ReportLine, _mismatch_lines(comparison))
        yield ReportLine(_row(self._number, comparison))
        if self._parameters.debug > 0:
            yield from map(ReportLine, _word_and_bracket_lines(comparison))

    def _faults_of(self, sentence: Sentence) -> Iterator[ReportLine]:
        for fault in sentence.faults:
            yield from self._error(fault)
        while sentence.stuck:
            yield from self._error(sentence.faults[-1], can_go_on=False)

    def _error(self, fault: str, can_go_on: bool = True) -> Iterator[ReportLine]:
        yield ReportLine(f"{self._number} : {fault}", is_error=True)
        if self._errors > self._parameters.max_error:
            raise TooManyErrorsError(
                f"line {self._number}: this is error {self._errors + 1}, and MAX_ERROR is "
                f"{self._parameters.max_error}: scoring stops here, without a summary; fix the lines named above"
                + (", or raise MAX_ERROR in the parameter file" if can_go_on else "")
            )
        self._errors += 1

    def _end(self) -> Iterator[str]:
        totals = self._all
        yield _RULE
        sums = ""
        if totals.gold_brackets > 0 and totals.test_brackets > 0:
            sums = f"{'':16}{totals.recall:6.2f} {totals.precision:6.2f} {totals.matched:6d} "
            sums += f"{totals.gold_brackets:5d} {totals.test_brackets:5d}  {totals.crossing:5d}"
        yield sums + f"  {totals.words:5d} {totals.correct_tags:5d}   {totals.tagging_accuracy:6.2f}"
        yield "=== Summary ==="
        yield from _summary("All", totals)
        yield from _summary(f"len<={self._parameters.cutoff_length}", self._short)


def _mismatch_lines(comparison: BracketComparison) -> Iterator[str]:
    """Yields an empty line, then a line for each bracket that is missing, surplus, labelled otherwise or crossed."""
    yield ""
    for mismatch, sentence, bracket in comparison.mismatches:
        text = sentence.text[bracket.text_start : bracket.text_end]
        yield f"  {mismatch}[{bracket.start}-{bracket.end - 1}]: {text}"


def _word_and_bracket_lines(comparison: BracketComparison) -> Iterator[str]:
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


def _row(number: int, comparison: BracketComparison) -> str:
    counts = comparison.counts
    recall = percentage(counts.matched, counts.gold_brackets)
    precision = percentage(counts.matched, counts.test_brackets)
    return (
        f"{number:4d}  {comparison.gold.length:3d}    {comparison.status:d}  {recall:6.2f} {precision:6.2f}   "
        f"{counts.matched:3d}    {counts.gold_brackets:3d}  {counts.test_brackets:3d}    {counts.crossing:3d}   "
        f"{counts.words:4d}  {counts.correct_tags:4d}   {percentage(counts.correct_tags, counts.words):6.2f}"
    )


def _summary(title: str, totals: Totals) -> Iterator[str]:
    yield ""
    yield f"-- {title} --"
    for name, count in (
        ("Number of sentence", totals.sentences),
        ("Number of Error sentence", totals.errors),
        ("Number of Skip  sentence", totals.skipped),
        ("Number of Valid sentence", totals.valid),
    ):
        yield f"{name:26}= {count:6d}"
    for name, figure in (
        ("Bracketing Recall", totals.recall),
        ("Bracketing Precision", totals.precision),
        ("Bracketing FMeasure", totals.f1),
        ("Complete match", totals.exact_match),
        ("Average crossing", totals.average_crossing),
        ("No crossing", percentage(totals.without_crossing, totals.valid)),
        ("2 or less crossing", percentage(totals.with_few_crossings, totals.valid)),
        ("Tagging accuracy", totals.tagging_accuracy),
    ):
        yield f"{name:26}= {figure:6.2f}"
