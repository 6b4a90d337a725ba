"""Sums over sentences and the figures made of them."""

import dataclasses
import math

from t2t.metrics.brackets.compare import BracketCounts, Status

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
