"""Responses about runs, which need no model: their table, curves, hparams, checkpoints, examples."""

import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t.checkpoints.dev_outputs import MOST_EVALUATIONS, read_dev_outputs
from t2t.checkpoints.run_dir import METRICS_FILE
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.runs.overview import DAMAGED, RunOverview
from t2t.runs.run_checks import select_problem
from t2t.serving.requests import texts_of
from t2t.specs import DEV
from t2t.studio.comparisons import compare_systems, history_json
from t2t.studio.curves import HOURS, UPDATES, CurveView, curves_json
from t2t.studio.run_folders import printable
from t2t.studio.studio import Studio

MOST_POINTS, WIDEST_MEAN = 100_000, 10_001
"""Largest number of points of all curves of a metric in a response; largest width of a running mean, in points."""
MOST_EXAMPLES, MOST_VERSIONS = 10_000, MOST_EVALUATIONS
_FEWEST_POINTS = 100
"""Smallest limit on the points of a curve, however many runs are requested."""


def runs_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row for each run, with the size of its metrics file, which changes when there is new data."""
    return {"runs": [_row(path, one) for path, one in studio.runs.overview()]}


def _row(path: Path, overview: RunOverview) -> dict[str, Any]:
    size = 0
    with contextlib.suppress(OSError):
        size = (path / METRICS_FILE).stat().st_size
    has_checkpoints = overview.state != DAMAGED and bool(CheckpointStore(path / "checkpoints").steps())
    fields = dataclasses.asdict(overview)
    # Paths and flags may hold bytes that are not UTF-8.
    row = {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}
    return row | {"size": size, "has_checkpoints": has_checkpoints}


def curves_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the curves of some runs; `MOST_POINTS` is divided among them."""
    names = run_names(studio, data)
    by = data.get("by", UPDATES)
    if by not in (UPDATES, HOURS):
        raise UserError(f"by {by!r}: it is not known", f"ask for {UPDATES} or {HOURS}")
    most = json_int(data, "most", 1000, 4, MOST_POINTS)
    view = {
        "by": by,
        "start": _json_number(data, "start"),
        "end": _json_number(data, "end"),
        "smoothing": json_int(data, "smoothing", 1, 1, WIDEST_MEAN),
        "most": min(most, max(MOST_POINTS // max(len(names), 1), _FEWEST_POINTS)),
    }
    found = {}
    for name in names:
        last_update = studio.runs.place(name).last_update
        found[name] = curves_json(
            studio.runs.run(name), studio.runs.figures(name), CurveView(**view, last_update=last_update)
        )
    return {"runs": found}


def hparams_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the hparams of some runs side by side."""
    return hparams_json({name: studio.runs.run(name).record for name in run_names(studio, data)})


def checkpoints_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the checkpoints of a run."""
    return studio.checkpoints(data.get("run"))


def examples_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the first examples of a split of a run's data."""
    count = query_int(data, "count", 20, 1, MOST_EXAMPLES)
    return studio.examples(data.get("run"), data.get("split", DEV), count)


def dev_outputs_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes of outputs for dev sentences of one of a run's problems, by default the first."""
    run = studio.runs.run(data.get("run"))
    problem = select_problem(run, data.get("problem") or run.record.problems[0])
    most = query_int(data, "most", 10, 1, MOST_VERSIONS)
    own = problem if len(run.record.problems) > 1 else ""
    evaluations = [one for one in read_dev_outputs(run.dev_outputs_file) if one.problem == own]
    return {"problems": list(run.record.problems), "problem": problem, **history_json(evaluations, most)}


def comparison_answer(studio: Studio, data: Mapping[str, Any], most_texts: int) -> dict[str, Any]:
    """Returns a comparison of two systems by their outputs for the same lines."""
    references, first, second = (texts_of(data.get(name), name) for name in ("references", "first", "second"))
    if len(references) > most_texts:
        raise UserError(f"{len(references)} lines, at most {most_texts}", "send fewer at once")
    language = data.get("language", "")
    if not isinstance(language, str):
        raise UserError(f"language {language!r}: it is not a code of a language", "send such as en")
    return compare_systems(references, first, second, language)


def run_names(studio: Studio, data: Mapping[str, Any]) -> Sequence[str]:
    """Returns the run names in a request, by default all; raises UserError for unknown ones."""
    names = data.get("runs")
    if names is None:
        return studio.runs.names()
    if not isinstance(names, list):
        raise UserError(f"runs {names!r}: it is not a list of names", "send names of runs")
    for name in names:
        studio.runs.place(name)
    return list(dict.fromkeys(names))


def json_int(data: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    """Returns an integer from a JSON body; raises UserError for other types and values out of bounds."""
    value = data.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise UserError(f"{name} {value!r}: it is out of bounds", f"send a whole number from {least} to {most}")
    return value


def query_int(data: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    """Returns an integer from a query string; raises UserError for other texts and values out of bounds."""
    text = str(data.get(name, default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise UserError(f"{name} {text[:20]!r}: it is out of bounds", f"send a whole number from {least} to {most}")
    return int(text)


def _json_number(data: Mapping[str, Any], name: str) -> float | None:
    value = data.get(name)
    if value is not None and type(value) not in (int, float):
        raise UserError(f"{name} {value!r}: it is not a number", "send one")
    return value


_RUN = "run"
"""Section of the facts of a run that are not hparams."""
_MISSING = None


def hparams_json(records: Mapping[str, RunRecord]) -> dict[str, Any]:
    """Returns a row for each hparam: section, name, a value for each run, and whether the values differ.

    A run that does not have an hparam, such as one of another model, has null, which differs from every value.
    """
    columns = {name: _values(record) for name, record in records.items()}
    keys = list(dict.fromkeys(key for values in columns.values() for key in values))
    order = {section: index for index, section in enumerate(dict.fromkeys(section for section, _ in keys))}
    keys.sort(key=lambda key: order[key[0]])  # stable: within a section as the runs have them
    rows = []
    for section, name in keys:
        values = [column.get((section, name), _MISSING) for column in columns.values()]
        differs = any(value != values[0] for value in values)
        rows.append({"section": section, "name": name, "values": values, "differs": differs})
    return {"runs": list(columns), "rows": rows}


def _values(record: RunRecord) -> dict[tuple[str, str], Any]:
    """Returns (section, name) -> value of the hparams and the other facts of a run."""
    found: dict[tuple[str, str], Any] = {
        (_RUN, "problem"): record.problem,
        (_RUN, "model"): record.model,
        (_RUN, "hparams_set"): record.hparams_set,
        (_RUN, "data_fingerprint"): record.data_fingerprint[:12],
        (_RUN, "warm_start"): record.warm_start.get("from", ""),
    }
    found |= {("problem options", name): _in_json(value) for name, value in record.problem_options.items()}
    for section, values in record.hparams.items():
        found |= {(section, name): _in_json(value) for name, value in values.items()}
    return found | {("versions", name): version for name, version in record.versions.items()}


def _in_json(value: Any) -> Any:
    """Returns the value, as text if JSON has no such number; so NaN equals NaN."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
