"""Draws attention between the words of a sentence as lines, like the figures of "Attention Is All You Need".

Legend: L layers, H heads, W words.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

Head = tuple[int, int]
"""Layer and head, from 0."""

_INCHES_PER_WORD = 0.32


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence and the attention between its words."""

    words: tuple[str, ...]
    """W: the words, and a mark for end of sequence."""
    weights: np.ndarray
    """(L, H, W, W) float: from word to word, a mean over the pieces of the first; the last axis sums to 1."""


@dataclasses.dataclass(frozen=True)
class Panel:
    """One picture."""

    title: str
    sentence: Sentence
    heads: Sequence[Head]
    """The heads that are drawn, a colour each."""
    query: int | None = None
    """The only word whose attention is drawn; None: all words."""


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Draws the pictures below each other into a file; words attend from the upper row to the lower one."""
    from matplotlib.figure import Figure  # takes a second to import

    width = _INCHES_PER_WORD * max(len(one.sentence.words) for one in panels)
    figure = Figure(figsize=(width, 2.6 * len(panels)), layout="constrained")
    for axes, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        _draw(axes, panel)
    figure.savefig(path, dpi=110)


def _draw(axes, panel: Panel) -> None:
    words = panel.sentence.words
    for place, word in enumerate(words):
        axes.text(place, 1.05, word, rotation=90, ha="center", va="bottom", fontsize=8)
        axes.text(place, -0.05, word, rotation=90, ha="center", va="top", fontsize=8)
    queries = range(len(words)) if panel.query is None else [panel.query]
    for number, head in enumerate(panel.heads):
        weights_WW = panel.sentence.weights[head]
        for query in queries:
            for key, weight in enumerate(weights_WW[query]):
                axes.plot([query, key], [1, 0], color=f"C{number}", alpha=float(min(weight, 1)), linewidth=2)
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-1.2, 2.2))
    axes.set_title(panel.title, loc="left", fontsize=9)
    axes.axis("off")
