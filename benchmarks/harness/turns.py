"""Sides that run in turn: ours, theirs, ours, theirs; never two at a time."""

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import Conditions, Side, SideError, run

MOST_OTHERS = 0.1
"""A turn is taken anew where other processes kept more cores than that busy: threads that wait for each other suffer
far more than their share."""


@dataclasses.dataclass
class Turns:
    """What a side gave."""

    name: str
    figures: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Of each turn: what its module wrote, and `load`, the machine's mean load over the minute before."""
    failure: str = ""
    """Why it has no figures."""

    def of(self, read: Callable[[dict[str, Any]], float]) -> list[float]:
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
                figures = _undisturbed(side, job, folder / f"turn-{turn + 1}", conditions)
            except SideError as error:
                if side is sides[0]:
                    raise
                so_far.failure, so_far.figures = str(error), []
                continue
            so_far.figures.append(figures)
    return taken


def _undisturbed(side: Side, job: dict[str, Any], folder: Path, conditions: Conditions) -> dict[str, Any]:
    """Runs a side, once more while others have kept the processor busy; returns the least disturbed run's figures."""
    best: dict[str, Any] = {}
    for _ in range(1 + conditions.again):
        load = os.getloadavg()[0]
        figures = {**run(side, job, folder, conditions), "load": load}
        if not best or figures.get("others", 0.0) < best["others"]:
            best = {"others": 0.0, **figures}
        if best["others"] <= MOST_OTHERS:
            break
        print(f"  others kept {figures['others']:.2f} cores busy", file=sys.stderr, flush=True)
    return best
