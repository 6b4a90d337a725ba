"""A score of each training pair, such as those of Bicleaner or LASER, from a file beside the corpus."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.problems.filters.sample_filter import SampleFilter

SCORE = "_score"
"""Key of the score in a sample, a number beside its features."""

_SHOWN = 40
"""Characters of a wrong line that a message shows."""


def read_scores(path: Path | str, column: int, tally: Counter[str]) -> Iterator[float]:
    """Yields the score of each line.

    Args:
        path: the file, plain or .gz.
        column: where a line has several columns, which TABs separate: that of the score, from 1.
        tally: as for `read_lines`.

    Raises:
        UserError: a line has no such column, or no finite number there; or see `read_lines`.
    """
    for number, line in enumerate(read_lines(path, tally), 1):
        yield parse_score(line, column, f"{path}, line {number:,}")


def parse_score(line: str, column: int, place: str) -> float:
    """Returns the score of one line; errors begin with its `place`, see `read_scores`."""
    cells = line.split("\t", column)
    if len(cells) < column:
        raise UserError(
            f"{place}, has {len(cells)} column{'s' * (len(cells) != 1)} and the score is asked for in column {column}; "
            f"correct the file or --train_score_column"
        )
    try:
        score = float(cells[column - 1])
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UserError(
            f"{place}, has {cells[column - 1][:_SHOWN]!r} where a score is asked for, which is a finite number; correct "
            f"the file or --train_score_column"
        )
    return score


def score_filter(least: float) -> SampleFilter:
    """Returns the filter of samples that have a `SCORE` below `least`."""
    return SampleFilter(f"with a score below {least:g}", lambda sample: sample[SCORE] >= least)
