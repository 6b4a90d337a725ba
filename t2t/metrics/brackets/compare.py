"""One test sentence against its gold sentence, counted as EVALB counts.

Labelled bracketing: Black et al. 1991 (PARSEVAL), in the form of S. Sekine and M. Collins, EVALB, 1997.
"""

import dataclasses
import enum
import math
from collections import defaultdict, deque

from t2t.metrics.brackets.parameters import Parameters
from t2t.metrics.brackets.sentence import Bracket, Quote, Result, Sentence, Word, read_sentence


class Status(enum.IntEnum):
    """EVALB's numbers in the column `Stat.`."""

    VALID = 0
    ERROR = 1
    """A line is broken, or words differ; it counts as an error and in no figure."""
    SKIPPED = 2
    """The test sentence has no words that count: the parser found no tree."""


class Mismatch(enum.StrEnum):
    """Why a bracket gets a line of debug output."""

    LABEL = "LABEL"
    """The test has this bracket with another label."""
    BRACKET = "BRACKET"
    """Only the gold sentence has it."""
    EXTRA = "EXTRA"
    """Only the test sentence has it."""
    CROSSING = "CROSSING"
    """A gold bracket that one of the test crosses."""


@dataclasses.dataclass
class BracketCounts:
    """The counts of one sentence; zeros if it is skipped or its words differ."""

    matched: int = 0
    """Brackets of the test with a gold bracket of the same span and label."""
    gold_brackets: int = 0
    test_brackets: int = 0
    crossing: int = 0
    """Brackets of the test that cross a gold bracket."""
    words: int = 0
    correct_tags: int = 0


@dataclasses.dataclass
class BracketComparison:
    """The result for one pair of lines."""

    gold: Sentence
    test: Sentence
    status: Status
    counts: BracketCounts
    faults: list[str]
    """EVALB's messages about faults of the lines, in the order found."""
    mismatches: list[tuple[Mismatch, Sentence, Bracket]] = dataclasses.field(default_factory=list)


def compare(gold_line: str, test_line: str, parameters: Parameters) -> BracketComparison:
    """Scores one bracketed line against another; broken lines make an error, not an exception."""
    gold, test = read_sentence(gold_line, parameters), read_sentence(test_line, parameters)
    return compare_sentences(gold, test, parameters)


def compare_sentences(gold: Sentence, test: Sentence, parameters: Parameters) -> BracketComparison:
    """Scores one sentence against another; both are changed: labels lose function tags, results are noted."""
    faults = gold.faults + test.faults
    if gold.stuck or test.stuck:  # where EVALB would hang until it has counted enough errors
        return BracketComparison(gold, test, Status.ERROR, BracketCounts(), faults)
    if not test.words:
        return BracketComparison(gold, test, Status.SKIPPED, BracketCounts(), faults)
    if len(gold.words) != len(test.words):
        _put_back_quotes(gold, test, parameters)
    unequal = _difference_of_words(gold, test, parameters)
    if unequal:
        return BracketComparison(gold, test, Status.ERROR, BracketCounts(), [*faults, unequal])
    comparison = BracketComparison(gold, test, Status.ERROR if faults else Status.VALID, BracketCounts(), faults)
    for sentence in (gold, test):
        _prepare(sentence.brackets, parameters)
    comparison.counts = BracketCounts(
        matched=_match(comparison, parameters),
        gold_brackets=_count_brackets(gold),
        test_brackets=_count_brackets(test),
        crossing=_crossing(comparison),
        words=len(gold.words),
        correct_tags=_correct_tags(gold, test, parameters),
    )
    return comparison


def _put_back_quotes(gold: Sentence, test: Sentence, parameters: Parameters) -> None:
    """Makes quotation marks at the same position count on both sides or on neither, as EVALB of 2006 (D. Ellis) does.

    A parser that tags an apostrophe as `''` where the treebank has `POS` loses a word to DELETE_LABEL. The word is put
    back on the side that lost it.
    """
    deleted = parameters.delete_labels
    for own, quote in enumerate(test.quotes):
        # the index before any change, compared with indices that change, as in EVALB
        index = quote.index
        for other, counterpart in enumerate(gold.quotes):
            if counterpart.index != index or counterpart.tag == quote.tag:
                continue
            if counterpart.tag in deleted and quote.tag not in deleted:
                _put_back(gold, counterpart, gold.quotes[other:])
            elif quote.tag in deleted and counterpart.tag not in deleted:
                _put_back(test, quote, test.quotes[own:])


def _put_back(sentence: Sentence, quote: Quote, later: list[Quote]) -> None:
    sentence.words.insert(quote.index, Word(quote.word, quote.tag))
    for bracket in sentence.brackets[quote.bracket :]:
        bracket.start += 1
        bracket.end += 1
    for number in quote.around:
        sentence.brackets[number].end += 1
    for one in later:
        one.index += 1


def _difference_of_words(gold: Sentence, test: Sentence, parameters: Parameters) -> str:
    """Returns EVALB's message about the first difference of the words; empty if they are equal."""
    if len(gold.words) != len(test.words):
        return f"Length unmatch ({len(gold.words)}|{len(test.words)})"
    for one, other in zip(gold.words, test.words, strict=True):
        if not parameters.same_word(one.word, other.word):
            return f"Words unmatch ({one.word}|{other.word})"
    return ""


def _prepare(brackets: list[Bracket], parameters: Parameters) -> None:
    """Removes function tags and indices from labels; marks brackets that do not count."""
    for bracket in brackets:
        bracket.result = Result.WRONG
        if bracket.start == bracket.end:
            bracket.result = Result.DELETED
            continue
        bracket.label = bracket.label.partition("-")[0].partition("=")[0]
        if parameters.deletes_bracket(bracket.label):
            bracket.result = Result.DELETED


def _count_brackets(sentence: Sentence) -> int:
    return sum(bracket.result != Result.DELETED for bracket in sentence.brackets)


def _match(comparison: BracketComparison, parameters: Parameters) -> int:
    """Pairs each gold bracket, in order, with the first free one of the test of its span and label."""
    gold, test = comparison.gold, comparison.test
    free: dict[tuple[int, int], deque[Bracket]] = defaultdict(deque)
    for bracket in test.brackets:
        if bracket.result == Result.WRONG:
            free[bracket.start, bracket.end].append(bracket)
    matched, labelled_otherwise = 0, set()
    for bracket in gold.brackets:
        if bracket.result == Result.DELETED:
            continue
        same_span = free[bracket.start, bracket.end]
        if not same_span:
            comparison.mismatches.append((Mismatch.BRACKET, gold, bracket))
        for place, one in enumerate(same_span):
            if not parameters.labeled or parameters.same_label(bracket.label, one.label):
                bracket.result = one.result = Result.RIGHT
                matched += 1
                del same_span[place]
                break
            comparison.mismatches.append((Mismatch.LABEL, gold, bracket))
            labelled_otherwise.add(id(one))
    for bracket in test.brackets:
        if bracket.result == Result.WRONG and id(bracket) not in labelled_otherwise:
            comparison.mismatches.append((Mismatch.EXTRA, test, bracket))
    return matched


def _crossing(comparison: BracketComparison) -> int:
    """Counts brackets of the test that overlap a gold bracket, neither lying in the other."""
    first_of_span: dict[tuple[int, int], Bracket] = {}
    for bracket in comparison.gold.brackets:
        if bracket.result != Result.DELETED:
            first_of_span.setdefault((bracket.start, bracket.end), bracket)
    crossed_by: dict[tuple[int, int], Bracket | None] = {}
    crossing, last = 0, None
    for bracket in comparison.test.brackets:
        if bracket.result == Result.DELETED:
            continue
        span = (bracket.start, bracket.end)
        if span not in crossed_by:
            crossing_it = (one for one in first_of_span.values() if _overlap(one, bracket) or _overlap(bracket, one))
            crossed_by[span] = next(crossing_it, None)
        crossed = crossed_by[span]
        if crossed is None:
            continue
        crossing += 1
        if crossed is not last:
            comparison.mismatches.append((Mismatch.CROSSING, comparison.gold, crossed))
            last = crossed
    return crossing


def _overlap(one: Bracket, other: Bracket) -> bool:
    """Returns whether `one` begins before `other` and ends inside it."""
    return one.start < other.start < one.end < other.end


def _correct_tags(gold: Sentence, test: Sentence, parameters: Parameters) -> int:
    correct = 0
    for one, other in zip(gold.words, test.words, strict=True):
        right = parameters.same_label(one.tag, other.tag)
        one.result = other.result = Result.RIGHT if right else Result.WRONG
        correct += right
    return correct


# === Sums over sentences and the figures made of them ===


FEW_CROSSINGS = 2


@dataclasses.dataclass
class Totals(BracketCounts):
    """What EVALB adds up; sentences that are skipped or in error count as such and in nothing else."""

    sentences: int = 0
    errors: int = 0
    skipped: int = 0
    exact: int = 0
    """Sentences all of whose brackets match."""
    without_crossing: int = 0
    with_few_crossings: int = 0
    """Sentences of at most two crossing brackets."""

    def add(self, status: Status, counts: BracketCounts) -> None:
        """Adds one sentence."""
        self.sentences += 1
        self.errors += status == Status.ERROR
        self.skipped += status == Status.SKIPPED
        if status != Status.VALID:
            return
        for field in dataclasses.fields(counts):
            setattr(self, field.name, getattr(self, field.name) + getattr(counts, field.name))
        self.exact += counts.gold_brackets == counts.test_brackets == counts.matched
        self.without_crossing += counts.crossing == 0
        self.with_few_crossings += counts.crossing <= FEW_CROSSINGS

    @property
    def valid(self) -> int:
        """Number of sentences that are neither in error nor skipped."""
        return self.sentences - self.errors - self.skipped

    @property
    def error_rate(self) -> float:
        """Percentage of sentences that no other figure counts."""
        return percentage(self.errors + self.skipped, self.sentences)

    @property
    def recall(self) -> float:
        """Percentage of the gold brackets that the test has; 0 if there are none."""
        return percentage(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        """Percentage of the test's brackets that are gold; 0 if there are none."""
        return percentage(self.matched, self.test_brackets)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; NaN if both are 0, as in EVALB."""
        precision, recall = self.precision, self.recall
        return 2 * precision * recall / (precision + recall) if precision + recall else math.nan

    @property
    def exact_match(self) -> float:
        """Percentage of valid sentences all of whose brackets match."""
        return percentage(self.exact, self.valid)

    @property
    def average_crossing(self) -> float:
        """Mean number of crossing brackets per valid sentence."""
        return self.crossing / self.valid if self.valid else 0.0

    @property
    def tagging_accuracy(self) -> float:
        """Percentage of words, of those that count, whose tag is right."""
        return percentage(self.correct_tags, self.words)


def percentage(part: int, whole: int) -> float:
    """Returns 100 * part / whole; 0 if the whole is 0."""
    return 100.0 * part / whole if whole else 0.0
