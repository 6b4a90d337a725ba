"""Runs the sides of a comparison alternately (ours, theirs, ours, theirs), never two at a time."""

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import Conditions, Side, SideError, run

MOST_OTHERS = 0.1
"""Mean number of cores that other processes may keep busy during a turn. A turn above it is disturbed: it is repeated
and not published. The limit is low because threads that wait for each other slow down far more than this share."""

Figures = dict[str, Any]
"""Figures of one turn: the result of its module, and `load`, the machine's mean load over the preceding minute."""


@dataclasses.dataclass
class Turns:
    """All turns of one side."""

    name: str
    figures: list[Figures] = dataclasses.field(default_factory=list)
    failure: str = ""
    """Reason why it has no figures, or empty."""

    def of(self, read: Callable[[Figures], float]) -> list[float]:
        """Returns the number that `read` extracts from each turn."""
        return [read(figures) for figures in self.figures]


def take_turns(
    sides: Sequence[Side], job: dict[str, Any], turns: int, folder: Path, conditions: Conditions
) -> list[Turns]:
    """Runs every side `turns` times, alternately; a peer that fails is not run again.

    Args:
        sides: the programs, ours first.
        job: the job of all sides.
        turns: number of runs of each side.
        folder: output folder for jobs, logs and results.
        conditions: the conditions of all sides.

    Raises:
        SideError: our own side failed.
    """
    taken = [Turns(side.name) for side in sides]
    for turn in range(turns):
        for side, so_far in zip(sides, taken, strict=True):
            if so_far.failure:
                continue
            print(f"turn {turn + 1} of {turns}: {side.name}", file=sys.stderr, flush=True)
            try:
                figures = least_disturbed(
                    lambda side=side, turn=turn: _measure(side, job, folder / f"turn-{turn + 1}", conditions),
                    conditions.again,
                )
            except SideError as error:
                if side is sides[0]:
                    raise
                so_far.failure, so_far.figures = str(error), []
                continue
            so_far.figures.append(figures)
    return taken


def _measure(side: Side, job: dict[str, Any], folder: Path, conditions: Conditions) -> Figures:
    load = os.getloadavg()[0]
    return {"others": 0.0, **run(side, job, folder, conditions), "load": load}


def least_disturbed(measure: Callable[[], Figures], again: int) -> Figures:
    """Measures until a turn is undisturbed, at most `1 + again` times; returns the least disturbed figures.

    Args:
        measure: function that returns figures with `others`, the cores that other processes kept busy.
        again: maximum number of repetitions.
    """
    found: list[Figures] = []
    for _ in range(1 + again):
        found.append(measure())
        others = found[-1].get("others", 0.0)
        if others <= MOST_OTHERS:
            break
        print(f"  others kept {others:.2f} cores busy", file=sys.stderr, flush=True)
    return min(found, key=lambda figures: figures.get("others", 0.0))
