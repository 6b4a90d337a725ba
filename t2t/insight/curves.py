"""The curves of a run: loss, rate, scores by update; as numbers for the page, and as a picture without a browser."""

import io
import math
from collections.abc import Mapping
from pathlib import Path

from t2t.atomic import os_errors_as_machine_errors, write_atomically
from t2t.errors import UserError
from t2t.run_dir import RunDir

Curves = dict[str, list[tuple[int, float]]]
"""Name of a figure -> (update, value), in order."""

_STEP, _TIME = "step", "time"
_PANEL_INCHES = (4.6, 2.9)
_COLUMNS = 3


def curves_of(run: RunDir) -> Curves:
    """Returns every figure that a run has written down; of an update told twice the last.

    Raises:
        UserError: there are none.
    """
    found: dict[str, dict[int, float]] = {}
    for line in run.metrics():
        for name, value in line.items():
            if name not in (_STEP, _TIME) and isinstance(value, (int, float)) and math.isfinite(value):
                found.setdefault(name, {})[int(line[_STEP])] = float(value)
    if not found:
        raise UserError(f"{run.path} has no figures of its training yet: {run.metrics_file.name} is missing or empty")
    return {name: sorted(points.items()) for name, points in sorted(found.items())}


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

    names = sorted({name for curves in runs.values() for name in curves})
    rows = -(-len(names) // _COLUMNS)
    figure = Figure(figsize=(_PANEL_INCHES[0] * min(_COLUMNS, len(names)), _PANEL_INCHES[1] * rows), layout="tight")
    for place, name in enumerate(names, start=1):
        axes = figure.add_subplot(rows, min(_COLUMNS, len(names)), place)
        axes.set_title(name, parse_math=False)
        axes.set_xlabel("updates")
        axes.grid(alpha=0.3)
        for run, curves in runs.items():
            updates, values = zip(*curves.get(name, [(0, math.nan)]), strict=True)
            axes.plot(updates, values, marker="." if len(updates) < 30 else None, label=run)
        if len(runs) > 1:
            axes.legend([run if not run.startswith("_") else f" {run}" for run in runs])
    picture = io.BytesIO()
    FigureCanvasAgg(figure).print_png(picture)
    with os_errors_as_machine_errors(f"cannot write {path}"):
        write_atomically(Path(path), picture.getvalue())
    return names
