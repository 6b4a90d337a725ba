"""Training curves of runs, as numbers and as a picture."""

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
    """Name of a figure -> remark for comparisons."""


_STEP, _TIME = "step", "time"
_PANEL_INCHES = (4.6, 2.9)
_COLUMNS = 3


def curves_of(run: RunDir, last_update: int | None = None) -> Curves:
    """Returns the figures of a run up to `last_update`, the last of a repeated update; raises UserError for none."""
    found: dict[str, dict[int, float]] = {}
    for line in run.metrics():
        update = int(line[_STEP])
        for name, value in line.items() if last_update is None or update <= last_update else ():
            if name not in (_STEP, _TIME) and isinstance(value, (int, float)) and math.isfinite(value):
                found.setdefault(name, {})[update] = float(value)
    if not found:
        until = "" if last_update is None else f" up to update {last_update:,}"
        raise UserError(
            f"{run.path} has no figures of its training{until} yet: {run.metrics_file.name} is missing or empty"
        )
    return Curves({name: sorted(points.items()) for name, points in sorted(found.items())}, _notes(run, found))


def _notes(run: RunDir, names: Iterable[str]) -> dict[str, str]:
    """Returns notes on training losses with label smoothing, which losses of dev do not have."""
    smoothing = run.record.hparams.get("model", {}).get("label_smoothing", 0.0)
    losses = [name for name in names if name.startswith("train/") and name.endswith("/loss")]
    return dict.fromkeys(losses, f"with label smoothing {smoothing:g}") if smoothing else {}


def plot_curves(runs: Mapping[str, Curves], path: Path | str) -> list[str]:
    """Writes the curves of runs by name as PNG, a panel for each figure; returns the names of the panels.

    Raises:
        UserError: the path does not end in .png.
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
        notes = [curves.notes.get(name, "") for curves in runs.values()]
        if len(runs) > 1:
            axes.legend([_label(run, note) for run, note in zip(runs, notes, strict=True)])
        else:
            axes.set_ylabel(notes[0])
    picture = io.BytesIO()
    FigureCanvasAgg(figure).print_png(picture)
    with os_errors_as_machine_errors(f"cannot write {path}"):
        write_atomically(Path(path), picture.getvalue())
    return names


def _label(run: str, note: str) -> str:
    visible = f" {run}" if run.startswith("_") else run  # matplotlib leaves out labels that begin with _
    return f"{visible} ({note})" if note else visible
