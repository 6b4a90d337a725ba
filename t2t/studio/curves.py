"""Training curves of runs, as JSON for the page and as a picture; thinning that keeps their look, running means.

Legend: P points of a curve, G groups of neighbouring points.
"""

import base64
import dataclasses
import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.studio.run_figures import Points, RunFigures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UPDATES, HOURS = "updates", "hours"
"""Units of the x axis, which orders the points: updates, or hours since the first line of the run's metrics."""


@dataclasses.dataclass(frozen=True)
class Curves:
    """The metrics of a run during training."""

    points: dict[str, list[tuple[int, float]]]
    """Name of a metric -> (update, value) pairs, in order."""
    notes: dict[str, str]
    """Name of a metric -> note on its comparability."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CurveView:
    """The visible part of the curves."""

    by: str = UPDATES
    start: float | None = None
    """Lower end of the x axis, in units of `by`; None for all. `end` is the upper end."""
    end: float | None = None
    smoothing: int = 1
    """Width of the running mean in points; it is computed before thinning."""
    most: int = 1000
    """Largest number of points of a curve to send."""
    last_update: int | None = None
    """Later updates are omitted; None for all."""


_PANEL_INCHES = (4.6, 2.9)
_COLUMNS = 3


def curves_of(run: RunDir, last_update: int | None = None) -> Curves:
    """Returns the metrics of a run up to `last_update`; of a repeated update the last. Raises UserError for none."""
    figures = RunFigures(run.metrics_file)
    figures.read()
    found = {}
    for name in figures.names():
        points = _until(figures.points(name), last_update)
        if len(points.updates):
            found[name] = list(zip(points.updates.tolist(), points.values.tolist(), strict=True))
    if not found:
        until = "" if last_update is None else f" up to update {last_update:,}"
        raise UserError(
            f"{run.path} has no figures of its training{until} yet: {run.metrics_file.name} is missing or empty",
            "train it until its first log line",
        )
    return Curves(found, notes_of(run, found))


def _until(points: Points, last_update: int | None) -> Points:
    """Returns the points up to an update, all for None."""
    if last_update is None:
        return points
    count = int(np.searchsorted(points.updates, last_update, side="right"))
    return Points(*(column[:count] for column in points))


def notes_of(run: RunDir, names: Iterable[str]) -> dict[str, str]:
    """Returns notes for training losses with label smoothing, which are not comparable with dev losses.

    Objectives other than the likelihood do not smooth.
    """
    hparams = run.record.hparams
    if hparams.get("objective", {}).get("objective", "likelihood") != "likelihood":
        return {}
    smoothing = hparams.get("model", {}).get("label_smoothing", 0.0)
    losses = [name for name in names if name.startswith("train/") and name.endswith("/loss")]
    return dict.fromkeys(losses, f"with label smoothing {smoothing:g}") if smoothing else {}


def curves_json(run: RunDir, figures: RunFigures, view: CurveView) -> dict[str, Any]:
    """Returns the data of the page: for each metric x and y of the curve, the number of all points, and the last value.

    `size` changes when there is new data.
    """
    start = figures.start()
    found = {}
    for name in figures.names():
        points = _until(figures.points(name), view.last_update)
        if len(points.updates):
            found[name] = _curve(points, (points.times - start) / 3600, view)
    return {"size": figures.size, "figures": found, "notes": notes_of(run, found)}


def _curve(points: Points, hours: np.ndarray, view: CurveView) -> dict[str, Any]:
    x, values = points.updates, points.values
    if view.by == HOURS:
        order = np.argsort(hours, kind="stable")  # a resumed run reports updates again, after later ones from before
        x, values = hours[order], values[order]
    y = running_mean(values, view.smoothing)
    first = 0 if view.start is None else int(np.searchsorted(x, view.start))
    end = len(x) if view.end is None else int(np.searchsorted(x, view.end, side="right"))
    shown = slice(max(first - 1, 0), end + 1)  # with a neighbour on each side, so that lines reach the edges
    kept = thin(y[shown], view.most)
    return {
        "x": pack(x[shown][kept], "f8"),
        "y": pack(y[shown][kept], "f8"),
        "points": len(x),
        "last": float(points.values[-1]),
        "last_update": int(points.updates[-1]),
    }


def pack(numbers: np.ndarray, kind: str) -> dict[str, str]:
    """Returns numbers in Plotly's fastest format: little-endian bytes in base64, and their `kind`, such as f8."""
    return {"dtype": kind, "bdata": base64.b64encode(numbers.astype(f"<{kind}").tobytes()).decode()}


def plot_curves(runs: Mapping[str, Curves], path: Path | str) -> list[str]:
    """Draws the curves of runs, by name, into a PNG with a panel for each metric; returns the names of the panels.

    Raises:
        UserError: the path does not end in .png.
        MachineError: the picture cannot be written.
    """
    if Path(path).suffix.lower() != ".png":
        raise UserError("pictures are written as PNG", "give a name that ends in .png", option="plot", value=path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # takes a second to import

    figure = figure_of_curves(runs)
    picture = io.BytesIO()
    FigureCanvasAgg(figure).print_png(picture)
    with os_errors_as_machine_errors(f"cannot write {path}"):
        write_atomically(Path(path), picture.getvalue())
    return [axes.get_title() for axes in figure.axes]


def figure_of_curves(runs: Mapping[str, Curves]) -> "Figure":
    """Returns a figure with a panel for each metric, in which the runs that have it are drawn."""
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
            legend = axes.legend([_label(run, note) for run, note in zip(runs, notes, strict=True)])
            for text in legend.get_texts():
                text.set_parse_math(False)
        else:
            axes.set_ylabel(notes[0])
    return figure


def _label(run: str, note: str) -> str:
    visible = f" {run}" if run.startswith("_") else run  # matplotlib omits labels that begin with _
    return f"{visible} ({note})" if note else visible


def thin(values: np.ndarray, most: int) -> np.ndarray:
    """Returns the points of a curve to draw: the first, the last, and the minimum and maximum of groups of neighbours.

    So the drawn curve keeps all spikes.

    Args:
        values: (P,) finite numbers.
        most: largest number of points to draw, at least 4.

    Returns:
        Ascending indices, at most `most`; all indices if there are no more than that.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(1, count - 1, (most - 2) // 2 + 1).astype(np.int64)
    starts, sizes = edges[:-1], np.diff(edges)
    # (G, widest): the indices of each group; a shorter group repeats its last one
    members = starts[:, None] + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    of_groups = values[members]
    groups = np.arange(len(starts))
    extremes = [members[groups, pick(of_groups, axis=1)] for pick in (np.argmin, np.argmax)]
    return np.unique(np.concatenate([[0], *extremes, [count - 1]]))


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Returns the mean of each point with its neighbours, `width` points in total, (P,).

    The window is centred; at the ends it narrows symmetrically.
    """
    half = min(width // 2, (len(values) - 1) // 2)
    if half < 1:
        return values
    # Each window is summed by itself: a running total would never be rid of the rounding by one very large value.
    whole = sliding_window_view(values, 2 * half + 1).mean(axis=1)
    narrow = range(1, 2 * half, 2)  # at the ends, the widths of windows
    starts = [values[:size].mean() for size in narrow]
    ends = [values[-size:].mean() for size in reversed(narrow)]
    return np.concatenate([starts, whole, ends])
