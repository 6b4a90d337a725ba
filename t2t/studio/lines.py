"""Writes a page with the attention for each line of text."""

from collections import Counter
from pathlib import Path

from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.lines import LineSource
from t2t.inference.translator import Translator
from t2t.studio.figures import figure_of
from t2t.studio.page import figures_page

MOST_FIGURES = 100
"""Largest number of figures on a page; one with a hundred pieces and 48 heads in total takes a megabyte."""


def write_attention_page(translator: Translator, title: str, source: LineSource, path: Path | str) -> int:
    """Draws the attention for each non-blank line, `source` or `source TAB target`; returns the number of figures.

    Raises:
        UserError: a line with more columns, no lines or too many, or a target that is too long.
        MachineError: the page cannot be written.
    """
    pairs = [
        _pair(line, number, source) for number, line in enumerate(source.lines(Counter()), start=1) if line.strip()
    ]
    if not 1 <= len(pairs) <= MOST_FIGURES:
        raise UserError(
            f"{source}: {len(pairs):,} lines to draw; a page shows from 1 to {MOST_FIGURES}, each a source or source "
            "TAB target",
            "give so many",
        )
    figures = [figure_of(translator, f"{number}", *pair) for number, pair in enumerate(pairs, start=1)]
    with os_errors_as_machine_errors(f"cannot write {path}"):
        write_atomically(Path(path), figures_page(title, figures).encode())
    return len(figures)


def _pair(line: str, number: int, source: LineSource) -> list[str]:
    columns = line.split("\t")
    if len(columns) > 2:
        raise UserError(
            f"{source}: line {number:,} has {len(columns)} columns; a line is a source, or source TAB target",
            "correct the file",
        )
    return columns
