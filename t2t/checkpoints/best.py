"""Records the best checkpoints of a run: `best.json`, `best.<problem>.json` and `ranking.json`."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from t2t.checkpoints.checkpoint import DamagedCheckpointError
from t2t.checkpoints.names import BEST
from t2t.checkpoints.pointer import Pointer
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.remote.mirror import names_in


@dataclass(frozen=True)
class Best:
    """The best checkpoint so far, with the figure that decided."""

    step: int
    metric: str
    value: float


class BestPointers:
    """The files that point to the best checkpoints in a folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._ranking = Pointer(folder / "ranking.json", {"metric": str, "steps": list, "values": list})

    def mark(self, best: Best, problem: str) -> None:
        """Marks a checkpoint as the best, of a problem if `problem` is not empty."""
        with os_errors_as_machine_errors(f"cannot mark the best checkpoint in {self._folder}"):
            self._pointer(problem).write(**asdict(best))

    def marked(self, problem: str) -> Best | None:
        """Returns the best checkpoint, of a problem if `problem` is not empty; None if none was marked.

        Raises:
            DamagedCheckpointError: the pointer is unreadable.
        """
        pointer = self._pointer(problem).read()
        return Best(**pointer) if pointer and math.isfinite(pointer["value"]) else None

    def rank(self, ranking: Sequence[Best]) -> None:
        """Records the best checkpoints, best first, by one figure."""
        with os_errors_as_machine_errors(f"cannot rank the best checkpoints in {self._folder}"):
            self._ranking.write(
                metric=ranking[0].metric,
                steps=[one.step for one in ranking],
                values=[float(one.value) for one in ranking],
            )

    def ranking(self) -> list[Best]:
        """Returns the best checkpoints, best first; empty if only the best one is kept.

        Raises:
            DamagedCheckpointError: the list is unreadable.
        """
        found = self._ranking.read()
        if found is None:
            return []
        steps, values = found["steps"], found["values"]
        if len(steps) != len(values) or {*map(type, steps)} - {int} or {*map(type, values)} - {float}:
            raise DamagedCheckpointError(
                f"{self._ranking.path} is damaged; remove it and name a checkpoint by its step"
            )
        return [Best(step, found["metric"], value) for step, value in zip(steps, values, strict=True)]

    def publish(self) -> None:
        """Uploads what interrupted writers left on this machine only; raises as `Pointer.publish`."""
        for problem in self.problems():
            self._pointer(problem).publish()
        self._ranking.publish()

    def steps(self) -> set[int]:
        """Returns the steps of all checkpoints that are marked or ranked.

        Raises:
            DamagedCheckpointError: a pointer or the list is unreadable.
        """
        marked = {found.step for problem in self.problems() if (found := self.marked(problem))}
        return marked | {found.step for found in self.ranking()}

    def problems(self) -> list[str]:
        """Returns the problems with a marked best checkpoint, an empty name for the run's."""
        copies = {path.name for path in self._folder.glob("best*.json")}  # a store's listing may lag behind
        names = {"best.json"} | copies | names_in(self._folder)
        stems = sorted(name.removesuffix(".json") for name in names if re.fullmatch(r"best(\..*)?\.json", name))
        return [stem.removeprefix(BEST).removeprefix(".") for stem in stems]

    def _pointer(self, problem: str) -> Pointer:
        path = self._folder / (f"best.{problem}.json" if problem else "best.json")
        return Pointer(path, {"step": int, "metric": str, "value": float})
