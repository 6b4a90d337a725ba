"""The data of a run for trackers: its hparams, and the new lines of its `metrics.jsonl`."""

import contextlib
import json
import threading
from pathlib import Path
from typing import Any, NamedTuple

from t2t.checkpoints.run_dir import TRACKING_FILE, RunDir
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.remote.mirror import fetch

_WRITING = threading.Lock()
"""Held while a tracker writes its state: several trackers share one file, each in its own thread."""


class UpdateFigures(NamedTuple):
    """Figures of an update."""

    update: int
    time: float
    """Seconds since 1970."""
    figures: dict[str, float]
    """Finite numbers by name, `train/...` and `dev/...`."""


def read_reports(file: Path, start: int) -> tuple[list[UpdateFigures], int]:
    """Returns the reports in the complete lines of a file from byte `start` on, and the position after them.

    A file shorter than `start` must be a new one, and is read from its beginning.
    """
    try:
        lines = file.open("rb")
    except FileNotFoundError:
        return [], start
    with lines:
        if lines.seek(0, 2) < start:
            start = 0
        lines.seek(start)
        added = lines.read()
    whole = added[: added.rfind(b"\n") + 1]
    return [report for line in whole.split(b"\n") if (report := _report(line))], start + len(whole)


def _report(line: bytes) -> UpdateFigures | None:
    with contextlib.suppress(ValueError, RecursionError, KeyError, AttributeError, TypeError):
        values = json.loads(line)
        update, time = int(values.pop("step")), float(values.pop("time"))
        return UpdateFigures(
            update, time, {name: value for name, value in values.items() if isinstance(value, int | float)}
        )
    return None  # damaged


def hparams_of(run: RunDir) -> dict[str, Any]:
    """Returns what describes a run: its names, overrides, every hparam, and the versions."""
    record = run.record
    named = {"problem": record.problem, "model": record.model, "hparams_set": record.hparams_set}
    values = {name: value for section in record.hparams.values() for name, value in section.items()}
    versions = {f"version.{name}": value for name, value in record.versions.items()}
    return {**named, "changes": record.overrides, **values, **versions}


def read_state(run: RunDir, tracker: str) -> dict[str, Any]:
    """Returns the `name` of a run in a tracker and the `bytes` of figures sent there; empty if it was never sent."""
    file = run.path / TRACKING_FILE
    fetch(file)
    state: Any = _read_states(file).get(tracker)
    is_whole = isinstance(state, dict) and isinstance(state.get("name"), str) and type(state.get("bytes")) is int
    return state if is_whole else {}


def write_state(run: RunDir, tracker: str, name: str, bytes_sent: int) -> None:
    """Writes what `read_state` returns, and keeps the state of other trackers; raises MachineError.

    If the folder mirrors an object store, `RunDir.publish_figures` uploads the file.
    """
    file = run.path / TRACKING_FILE
    with _WRITING, os_errors_as_machine_errors(f"cannot write {file}"):
        states = _read_states(file)
        states[tracker] = {"name": name, "bytes": bytes_sent}
        write_atomically(file, json.dumps(states).encode())


def _read_states(file: Path) -> dict[str, Any]:
    """Returns tracker -> state; empty where the file is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        states = json.loads(file.read_text(encoding="utf-8"))
        return states if isinstance(states, dict) else {}
    return {}
