"""A score of each training pair, such as those of Bicleaner or LASER, from a file next to the corpus."""

import math

from t2t.errors import UserError
from t2t.problems.filters.sample_filter import SampleFilter

_SHOWN = 40
"""Characters of a wrong value that a message shows."""


def parse_score(line: str, column: int, place: str) -> float:
    """Returns the score on a line.

    Args:
        line: of a file, with columns separated by TABs.
        column: number of the column of the score, from 1.
        place: file and line, for the beginning of error messages.

    Raises:
        UserError: there is no such column, or it is not a finite number.
    """
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
            f"{place}, has {cells[column - 1][:_SHOWN]!r} where a score is asked for, which is a finite number; "
            f"correct the file or --train_score_column"
        )
    return score


def score_filter(least: float) -> SampleFilter:
    """Returns the filter of samples whose score is below a threshold."""
    return SampleFilter(f"with a score below {least:g}", lambda sample: sample.score >= least, by_record=True)
