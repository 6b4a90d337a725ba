"""A pipeline task, in a module that the processes of pipelines can import."""

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

from t2t.pipelines.pipeline import Failures


@dataclasses.dataclass(frozen=True)
class Touch:
    """Creates a file for each element; one element may fail."""

    folder: Path
    count: int = 5
    failing: int = -1
    error: type[Exception] | None = None
    """Exception that the failing element raises."""
    tries: int = 100
    """Number of times that it raises."""
    dies: bool = False
    """Whether the process ends at the failing element."""
    seconds: float = 0.0
    """Duration of the failing element."""

    @property
    def failures(self) -> Failures:
        """Errors of workers."""
        return Failures(self.folder / "failures")

    def open(self) -> str:
        """Counts its calls."""
        _note(self.folder / "opened")
        return "opened"

    def run(self, opened: Any, element: int) -> dict[str, int]:
        """Creates the file of an element, or fails."""
        assert opened == "opened"
        if element == self.failing:
            (self.folder / "pid").write_text(str(os.getpid()))
            time.sleep(self.seconds)
            if self.dies:
                os._exit(1)
            if self.error and _note(self.folder / "tried") <= self.tries:
                raise self.error(f"element {element} is wrong")
        (self.folder / f"{element}.done").touch()
        return {"elements": 1, f"times {element}": 10}

    def is_done(self, element: int) -> bool:
        """Returns whether the file of an element exists."""
        return (self.folder / f"{element}.done").exists()


def _note(path: Path) -> int:
    """Counts a call in a file; returns the number of calls so far."""
    with path.open("a") as file:
        file.write("x")
    return path.stat().st_size
