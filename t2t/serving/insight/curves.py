"""The curves of a run: loss, rate, scores by update; as numbers for the page, and as a picture without a browser."""

import dataclasses
import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically


@dataclasses.dataclass(frozen=True)
class Curves:
    """The figures of a run."""

    points: dict[str, list[tuple[int, float]]]
    """Name of a figure -> (update, value), in order."""
    notes: dict[str, str]
    """Name of a figure -> what to know when it is compared with others."""


_STEP, _TIME = "step", "time"
_PANEL_INCHES = (4.6, 2.9)
_COLUMNS = 3


def curves_of(run: RunDir, last_update: int | None = None) -> Curves:
    """Returns every figure that a run has written down; of an update told twice the last.

    Args:
        run: the run.
        last_update: where the curves end; None for the end of the run.

    Raises:
        UserError: there are none.
    """
    found: dict[str, dict[int, float]] = {}
    for line in run.metrics():
        update = int(line[_STEP])
        if last_update is not None and update > last_update:
            continue
        for name, value in line.items():
            if name not in (_STEP, _TIME) and isinstance(value, (int, float)) and math.isfinite(value):
                found.setdefault(name, {})[update] = float(value)
    if not found:
        until = "" if last_update is None else f" up to update {last_update:,}"
        raise UserError(
            f"{run.path} has no figures of its training{until} yet: {run.metrics_file.name} is missing or empty"
        )
    return Curves({name: sorted(points.items()) for name, points in sorted(found.items())}, _notes(run, found))


def _notes(run: RunDir, names: Iterable[str]) -> dict[str, str]:
    """Returns a note to each training loss that label smoothing is part of; figures of dev are without it."""
    smoothing = run.record.hparams.get("model", {}).get("label_smoothing", 0.0)
    losses = [name for name in names if name.startswith("train/") and name.endswith("/loss")]
    return dict.fromkeys(losses, f"with label smoothing {smoothing:g}") if smoothing else {}


def plot_curves(runs: Mapping[str, Curves], path: Path | str) -> list[str]:
    """Draws the curves of runs, a panel for each figure, and writes them as PNG; returns the names of the panels.

    Args:
        runs: name -> curves.
        path: of the picture.

    Raises:
        UserError: the file is not to end in .png.
        MachineError: the picture cannot be written.
    """
    if Path(path).suffix.lower() != ".png":
        raise UserError(f"--plot={path}: pictures are written as PNG; give a name that ends in .png")
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # takes a second to import
    from matplotlib.figure import Figure

    names = sorted({name for curves in runs.values() for name in curves.points})
    rows = -(-len(names) // _COLUMNS)
    figure = Figure(figsize=(_PANEL_INCHES[0] * min(_COLUMNS, len(names)), _PANEL_INCHES[1] * rows), layout="tight")
    for place, name in enumerate(names, start=1):
        axes = figure.add_subplot(rows, min(_COLUMNS, len(names)), place)
        axes.set_title(name, parse_math=False)
        axes.set_xlabel("updates")
        axes.grid(alpha=0.3)
        for curves in runs.values():
            updates, values = zip(*curves.points.get(name, [(0, math.nan)]), strict=True)
            axes.plot(updates, values, marker="." if len(updates) < 30 else None)
        labels = _labels(runs, name)
        if len(runs) > 1:
            axes.legend(labels)
        else:
            axes.set_ylabel(labels[0])
    picture = io.BytesIO()
    FigureCanvasAgg(figure).print_png(picture)
    with os_errors_as_machine_errors(f"cannot write {path}"):
        write_atomically(Path(path), picture.getvalue())
    return names


def _labels(runs: Mapping[str, Curves], name: str) -> list[str]:
    """Returns the label of each run's curve of a figure: its name, where there are several, and the note."""
    labels = []
    for run, curves in runs.items():
        note = curves.notes.get(name, "")
        own = f" {run}" if run.startswith("_") else run  # or the legend would leave it out
        labels.append(f"{own} ({note})" if note and len(runs) > 1 else own if len(runs) > 1 else note)
    return labels
