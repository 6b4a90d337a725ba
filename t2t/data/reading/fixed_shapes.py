"""Batches of few fixed shapes, for compilers that compile a program for each shape.

A shape is a width of the targets, a width of the inputs and a number of rows. The widths are chosen for the lengths of
a sample: target widths with the least padding and, for each of them, the input widths with the least padding for its
examples. Examples that do not fill a batch go to the next wider shape; the last batch of a window is filled with
empty rows.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from t2t.data.reading.batching import Batch
from t2t.data.reading.reader import SplitReader, checked_columns, is_audio
from t2t.problems.preprocessors import Preprocessor
from t2t.specs import TARGETS

_CANDIDATES = 512
"""Most widths that are tried for one side."""


@dataclasses.dataclass(frozen=True)
class FixedShapes:
    """The allowed shapes.

    Args:
        names: the sequence features.
        grid: for each width of the targets, ascending, the widths of the other sequences, ascending; the single width
            0 if there is no other sequence.
        batch_size: most padded tokens of the longer side.
    """

    names: tuple[str, ...]
    grid: tuple[tuple[int, tuple[int, ...]], ...]
    batch_size: int

    @classmethod
    def choose(
        cls,
        lengths: Mapping[str, np.ndarray],
        count: int,
        longest: Mapping[str, int],
        batch_size: int,
        multiple: int = 1,
        widest: Mapping[str, int] | None = None,
    ) -> "FixedShapes":
        """Returns the shapes with the least padding for some examples.

        Args:
            lengths: by sequence feature, (N,) of the examples.
            count: largest number of shapes.
            longest: by sequence feature, the longest length that will occur.
            batch_size: most padded tokens of the longer side.
            multiple: widths are multiples of this, unless `widest` caps them.
            widest: by sequence feature, the widest width allowed; None for `longest`.
        """
        most = _longest(longest if widest is None else widest)
        main, other = _sides(lengths)
        main = _round_up(main, multiple, most[0])
        other = None if other is None else _round_up(other, multiple, most[1])
        longest_main, longest_other = (
            int(_round_up(length, multiple, limit)) for length, limit in zip(_longest(longest), most, strict=True)
        )
        for_each = 1 if other is None else max(1, round((count / 2) ** 0.5))
        grid: list[tuple[int, list[int]]] = []
        below = 0
        for width in _widths(main, max(1, count // for_each), longest_main):
            inside = (main > below) & (main <= width)
            within = np.zeros(1, int) if other is None or not inside.any() else other[inside]
            grid.append((width, _widths(within, for_each, int(within.max()))))
            below = width
        # The last shape must fit every example.
        grid[-1][1][-1] = max(grid[-1][1][-1], longest_other)
        return cls(tuple(lengths), tuple((width, tuple(others)) for width, others in grid), batch_size)

    def extremes(self) -> list[tuple[int, dict[str, int]]]:
        """Returns the rows and widths of the shapes that need most memory: the widest, and the one with most rows."""
        shapes = self._shapes()
        widest, most_rows = shapes[-1], max(shapes, key=lambda shape: (shape[0], sum(shape[1].values())))
        return [widest] if widest == most_rows else [widest, most_rows]

    def every(self) -> list[tuple[int, dict[str, int]]]:
        """Returns the rows and widths of all shapes, those of `extremes` first."""
        first = self.extremes()
        return first + [shape for shape in reversed(self._shapes()) if shape not in first]

    def _shapes(self) -> list[tuple[int, dict[str, int]]]:
        """Returns the rows and widths of all shapes, the narrowest first."""
        return [
            (self._rows(width, other), self._widths_by_name(width, other))
            for width, others in self.grid
            for other in others
        ]

    def cut_batches(self, indices: np.ndarray, lengths: Mapping[str, np.ndarray]) -> list[Batch]:
        """Cuts examples into batches of these shapes, each example in exactly one.

        `indices` and each of `lengths` are (N,); no length is above `longest`.
        """
        main, other = _sides(lengths)
        other = np.zeros_like(main) if other is None else other
        batches, below, left = [], 0, np.zeros(0, int)
        for width, others in self.grid:
            pool = np.concatenate([left, np.flatnonzero((main > below) & (main <= width))])
            pool = pool[np.argsort(other[pool], kind="stable")]
            start, below = 0, width
            for other_width in others:
                stop = np.searchsorted(other[pool], other_width, side="right")
                rows = self._rows(width, other_width)
                for _ in range((stop - start) // rows):
                    batches.append(self._batch(indices[pool[start : start + rows]], width, other_width))
                    start += rows
            left = pool[start:]
        width, others = self.grid[-1]
        rows = self._rows(width, others[-1])
        rest = (left[i : i + rows] for i in range(0, len(left), rows))
        return batches + [self._batch(indices[some], width, others[-1]) for some in rest]

    def _rows(self, width: int, other_width: int) -> int:
        return max(1, self.batch_size // max(width, other_width))

    def _batch(self, indices: np.ndarray, width: int, other_width: int) -> Batch:
        return Batch(indices, self._widths_by_name(width, other_width), self._rows(width, other_width))

    def _widths_by_name(self, width: int, other_width: int) -> dict[str, int]:
        return {name: width if name == _main_side(self.names) else other_width for name in self.names}


def _main_side(names) -> str:
    return TARGETS if TARGETS in names else next(iter(names))


def _sides(lengths: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns the lengths of the targets, and the longest of the other sequences of each example, if there are any."""
    main = _main_side(lengths)
    others = [counts for name, counts in lengths.items() if name != main]
    return lengths[main], np.maximum.reduce(others) if others else None


def _longest(longest: Mapping[str, int]) -> tuple[int, int]:
    main = _main_side(longest)
    return longest[main], max((length for name, length in longest.items() if name != main), default=0)


def _round_up(lengths, multiple: int, limit: int):
    """Returns the next multiples, none above `limit`; `lengths` is an int or (N,) and no more than `limit`."""
    return np.minimum(-(-lengths // multiple) * multiple, limit)


def _widths(lengths: np.ndarray, count: int, longest: int) -> list[int]:
    """Returns at most `count` widths, ascending and ending in `longest`, that pad the lengths least.

    By dynamic programming, exact for the widths that are tried.
    """
    steps = np.linspace(0, 1, _CANDIDATES)
    widths = np.unique(np.append(np.quantile(lengths, steps, method="higher"), longest)).astype(int)
    below = np.concatenate([[0], np.searchsorted(np.sort(lengths), widths, side="right")])  # examples that fit
    cost, chosen = np.full(len(widths) + 1, np.inf), []
    cost[0] = 0
    for _ in range(min(count, len(widths))):
        # cost[j]: least total padded length of the examples that fit into width j, if that is the last width so far
        new, back = np.full_like(cost, np.inf), np.zeros(len(cost), int)
        for j in range(1, len(cost)):
            sums = cost[:j] + (below[j] - below[:j]) * widths[j - 1]
            back[j] = int(np.argmin(sums))
            new[j] = sums[back[j]]
        cost = new
        chosen.append(back)
    found, j = [], len(widths)
    for back in reversed(chosen):
        found.append(int(widths[j - 1]))
        j = back[j]
        if j == 0:
            break
    return found[::-1]


def obstacle_to_fixed_shapes(
    reader: SplitReader,
    columns: Mapping[str, str] | None,
    max_length: int | None,
    preprocessors: Sequence[Preprocessor],
) -> str:
    """Returns why the batches of a split cannot have few fixed shapes, or an empty string; see `TrainingBatches`."""
    single = [name for name, stored in checked_columns(reader, columns).items() if not reader.is_sequence(stored)]
    if single:
        return (
            f"{reader.problem} has features that are not sequences ({', '.join(sorted(single))}), of which no row can "
            f"be empty"
        )
    unknown = {
        name
        for one in preprocessors
        if one.changes_lengths
        for name in one.features
        if max_length is None or is_audio(reader, name)
    }
    if unknown:
        names = ", ".join(sorted(unknown))
        return f"nothing bounds the lengths of {names} that preprocessors of {reader.problem} change"
    return ""
