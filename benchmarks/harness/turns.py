"""Sides that run in turn: ours, theirs, ours, theirs; never two at a time."""

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import Conditions, Side, SideError, run

MOST_OTHERS = 0.1
"""Cores that other processes may keep busy during a turn: beyond that it is disturbed, repeated, and not published.
Threads that wait for each other suffer far more than their share."""

Figures = dict[str, Any]
"""Of one turn: what its module wrote, and `load`, the machine's mean load over the minute before."""


@dataclasses.dataclass
class Turns:
    """What a side gave."""

    name: str
    figures: list[Figures] = dataclasses.field(default_factory=list)
    failure: str = ""
    """Why it has no figures."""

    def of(self, read: Callable[[Figures], float]) -> list[float]:
        """Returns a figure of every turn."""
        return [read(figures) for figures in self.figures]


def take_turns(
    sides: Sequence[Side], job: dict[str, Any], turns: int, folder: Path, conditions: Conditions
) -> list[Turns]:
    """Runs every side `turns` times, in turn; one that fails takes part no more.

    Args:
        sides: ours first.
        job: the same for all.
        turns: how often each runs.
        folder: for jobs, logs and results.
        conditions: the same for all.

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
    """Measures, and again while other processes kept the processor busy; returns the least disturbed figures.

    Args:
        measure: function whose figures have `others`, the cores that other processes kept busy.
        again: how often it is repeated, at most.
    """
    found: list[Figures] = []
    for _ in range(1 + again):
        found.append(measure())
        others = found[-1].get("others", 0.0)
        if others <= MOST_OTHERS:
            break
        print(f"  others kept {others:.2f} cores busy", file=sys.stderr, flush=True)
    return min(found, key=lambda figures: figures.get("others", 0.0))
