"""`t2t-runs`: a table of all runs below a folder."""

import dataclasses
import datetime
import json
import logging
from collections.abc import Sequence
from typing import Any

from absl import flags

from t2t.cli.common import command
from t2t.cli.flags import ACTION, OUTPUT, command_flags, flag_group
from t2t.errors import UnknownNameError, UserError, did_you_mean
from t2t.files.paths import ZOO_PREFIX, local_path, zoo_runs
from t2t.files.progress import clock
from t2t.files.tables import aligned, to_tsv
from t2t.metrics import LABEL, higher_is_better
from t2t.runs.overview import FIELDS, RunOverview, overview, overview_of

USAGE = """
Shows all runs below a folder, finished or in training: what they train, their progress and their scores.

    %s --folder=~/t2t_train
    %s --folder=study --sort=-best
    %s --folder=runs --filter=state=training,problem=translate --format=tsv
    %s zoo:                         (the runs that come with t2t, and those of --zoo_dir)

--folder= may be omitted.
"""

log = logging.getLogger("t2t")

_SHOWN = {
    "run": "run", "state": "state", "problem": "problem", "model": "model", "hparams_set": "set", "changes": "changes",
    "step": "step", "of": "of", "tokens_per_second": "tokens/s", "seconds_left": "left", "metric": "metric",
    "best": "best", "at_step": "at", "updated": "updated", "error": "error",
}  # fmt: skip
"""Field -> column title of the printed table."""
_LONGEST = 60
"""Most characters of a text in that table."""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, ACTION) as define:
        define.string("folder", "", "Folder below which the runs are.")
        define.string(
            "filter",
            "",
            f"Only runs whose fields contain a text: name=text,name=text; names: {', '.join(FIELDS)}.",
        )
        define.string(
            "sort",
            "run",
            "Field to sort by, named as in --filter; a leading - sorts in descending order. With -best, the best runs "
            "come first, also where smaller values are better; runs with another metric are listed separately.",
        )
    with flag_group(values, OUTPUT) as define:
        define.enum(
            "format", "table", ("table", "tsv", "json"), "Output format; tsv and json have full names and all digits."
        )


@command(build_flags, USAGE, positional=("folder",))
def main(values: flags.FlagValues) -> int:
    if not values.folder:
        raise UserError("not given", "name the folder below which the runs are", option="folder")
    criteria = _criteria(values.filter)
    name = _known("--sort", values.sort.removeprefix("-"))
    if values.folder == ZOO_PREFIX:
        found = [overview_of(path, f"{ZOO_PREFIX}{name}") for name, path in zoo_runs().items()]
    else:
        found = overview(local_path(values.folder))
    runs = [one for one in found if all(wanted in str(getattr(one, field)) for field, wanted in criteria)]
    records = [dataclasses.asdict(one) for one in _sorted(runs, name, descending=values.sort.startswith("-"))]
    if values.format == "json":
        print(json.dumps(records, indent=2))
    elif values.format == "tsv":
        print(to_tsv(records) or "\t".join(FIELDS) + "\n", end="")
    else:
        print(_table(records) or f"no such run below {values.folder}")
    return 0


def _criteria(text: str) -> list[tuple[str, str]]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, wanted = part.partition("=")
        if not equals:
            raise UserError(f"{part!r} is not name=text", "write e.g. problem=translate", option="filter", value=text)
        found.append((_known("--filter", name), wanted))
    return found


def _known(flag: str, name: str) -> str:
    if name not in FIELDS:
        raise UnknownNameError(
            f"{flag}: there is no {name!r}", f"{did_you_mean(name, FIELDS)}names are {', '.join(FIELDS)}"
        )
    return name


def _sorted(runs: Sequence[RunOverview], name: str, descending: bool) -> list[RunOverview]:
    """Returns the runs sorted by a field; those without a value come last.

    The field `best` is sorted by how good it is: ascending from the worst, metric by metric.
    """
    known = [one for one in runs if getattr(one, name) is not None]
    if name == "best":
        signs = {metric: 1 if _higher_is_better(metric) else -1 for metric in {one.metric for one in known}}
        known.sort(key=lambda one: signs[one.metric] * (one.best or 0.0), reverse=descending)
        known.sort(key=lambda one: one.metric)  # stable
    else:
        known.sort(key=lambda one: getattr(one, name), reverse=descending)
    return [*known, *(one for one in runs if getattr(one, name) is None)]


def _higher_is_better(metric: str) -> bool:
    """Returns whether larger values of the figure that selects a run's best checkpoint are better.

    The metric of a plug-in is not known here, and counts as most metrics do.
    """
    _, label, figure = metric.rpartition(LABEL)
    try:
        return higher_is_better(label + figure if label else metric.rpartition("/")[2])
    except UnknownNameError:
        log.warning("--sort: metric %s is not known without its plug-in; larger values count as better", metric)
        return True


def _table(records: Sequence[dict[str, Any]]) -> str:
    """Returns the table for a terminal, without columns that are empty in all rows."""
    used = [name for name in FIELDS if any(one[name] not in (None, "") for one in records)]
    return aligned([{_SHOWN[name]: _shown(name, one[name]) for name in used} for one in records])


def _shown(name: str, value: Any) -> Any:
    if value is None:
        return value
    if name == "updated":
        return datetime.datetime.fromtimestamp(value).strftime("%Y-%m-%d %H:%M:%S")
    if name == "seconds_left":
        return clock(value)
    if name == "tokens_per_second":
        return round(value)
    return (
        value[: _LONGEST - 3] + "..." if isinstance(value, str) and name != "run" and len(value) > _LONGEST else value
    )
