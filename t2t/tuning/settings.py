"""How a study is carried out, and the figure that it optimizes: its name, its direction, its values in a run."""

import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UnknownNameError, UserError
from t2t.hparams.base import HParams
from t2t.hparams.field import check_values, param
from t2t.hparams.override import assigned_names
from t2t.metrics import METRICS, higher_is_better
from t2t.metrics.token import FIGURES, LABEL
from t2t.problems.base import Problem
from t2t.specs.features import MEAN

RECORD_FILE = "study.toml"
"""File in the folder of a study with the flags of its command, so that it can be resumed without them."""
SAMPLERS = ("tpe", "random", "grid")
PRUNERS = ("median", "hyperband", "none")
_SQLITE_FILE = re.compile(r"(sqlite(?:\+\w+)?:///)(?!/|:memory:|file:)([^?]+)(.*)")


def absolute_storage(url: str) -> str:
    """Returns the URL of a database; with an absolute path where it is a file in the working directory."""
    found = _SQLITE_FILE.fullmatch(url)
    return f"{found[1]}{Path(found[2]).absolute()}{found[3]}" if found else url


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """The settings of a study; the flags of `t2t-tune` take help, defaults and bounds from here.

    Raises:
        UserError: a value of another type or out of bounds.
    """

    objective: str = param(
        "", "Figure of the evaluations to optimize, such as dev/bleu; empty for the one that selects the best "
        "checkpoint.",
    )  # fmt: skip
    trials: int = param(20, "Trials of the study, including those that are done.", minimum=1)
    parallel: int = param(1, "Trials that train at the same time, each a process.", minimum=1)
    sampler: str = param(
        "tpe", "How hparams are chosen: tpe by earlier trials (Bergstra et al. 2011), random at random, grid tries all "
        "combinations.", choices=SAMPLERS,
    )  # fmt: skip
    pruner: str = param(
        "median", "Which trials are stopped early, at evaluations: median stops those below the median of earlier "
        "trials, hyperband by brackets (Li et al. 2018), none stops none.", choices=PRUNERS,
    )  # fmt: skip
    startup_trials: int = param(
        5, "Number of trials before results are used to choose and stop trials; the first has the set's own values.",
        minimum=1,
    )  # fmt: skip
    repeats: int = param(0, "Number of other seeds with which the best trials are trained again at the end.", minimum=0)
    best: int = param(1, "How many of the best trials --repeats trains again.", minimum=1)
    storage: str = param(
        "", "URL of a database that several machines share, such as postgresql://host/db or sqlite:////path; empty for "
        "a file in the folder of the study.",
    )  # fmt: skip
    study_name: str = param("", "Name of the study in the database; empty for that of its folder.")
    trial_gpus: int = param(0, "Number of the visible GPUs that each trial gets; 0 = all for every trial.", minimum=0)

    def __post_init__(self):
        check_values(self, "setting")
        if self.storage and "://" not in self.storage:
            raise UserError(
                "it is not a URL",
                "give one such as sqlite:////path/study.db, or leave it out for a file in the folder of the study",
                option="storage",
                value=self.storage,
            )
        if self.study_name and not self.storage:
            raise UserError(
                "it names a study in a database", "give --storage too", option="study_name", value=self.study_name
            )


_GROUP = "dev/"


@dataclasses.dataclass(frozen=True)
class Objective:
    """A figure of the dev split."""

    figure: str
    """Its name without `dev/`; with several problems, it starts with the name of one of them, or with `mean`."""
    higher_is_better: bool
    change: str = ""
    """Override of hparams, if needed, to report it and to select the best checkpoint by it."""

    @property
    def key(self) -> str:
        """Its name in `metrics.jsonl`."""
        return _GROUP + self.figure

    def values(self, folder: Path) -> dict[int, float]:
        """Returns update -> value for the evaluations of a run so far; NaN if the value was not finite."""
        if not RunDir.exists(folder):
            return {}
        lines = (line for line in RunDir.open(folder).metrics() if self.key in line)
        return {line["step"]: math.nan if line[self.key] is None else float(line[self.key]) for line in lines}

    def best(self, values: dict[int, float]) -> tuple[int, float] | None:
        """Returns (update, value) of the best finite value, the earliest of equals; None where there is none."""
        finite = [(update, value) for update, value in values.items() if math.isfinite(value)]
        return min(finite, key=lambda pair: (self.cost(pair[1]), pair[0]), default=None)

    def cost(self, value: float) -> float:
        """Returns a number that is smaller for a better value."""
        return -value if self.higher_is_better else value


def resolve_objective(requested: str, problems: Sequence[Problem], hparams: HParams, overrides: str) -> Objective:
    """Returns the objective with a name such as `dev/bleu` or `bleu`; the label of a figure may be omitted.

    Args:
        requested: the name; empty for the figure that selects the best checkpoint.
        problems: those of the trials.
        hparams: of the trials, without the searched values.
        overrides: value of `--hparams`.

    Raises:
        UserError: no such figure, or one that the evaluations do not report.
    """
    name, several = requested.removeprefix(_GROUP), len(problems) > 1
    owner, _, rest = name.partition("/")
    owners = [MEAN, *(one.name for one in problems)] if several else []
    owner, name = (owner, rest) if owner in owners else (MEAN, name)
    default = "loss" if several else next(iter(problems[0].metrics), "loss")
    picked = _full_name(requested, hparams.best_metric or default)[0]
    figure, is_higher = _full_name(requested, name or picked)
    if not several:
        is_given = "best_metric" in assigned_names(overrides)
        if is_given and figure not in (picked, *problems[0].metrics):
            raise UserError(
                f"--hparams=best_metric={hparams.best_metric} picks checkpoints by another figure",
                "leave that out, and they are picked by the objective",
                option="objective",
                value=requested,
            )
        return Objective(figure, is_higher, "" if is_given or figure == picked else f"best_metric={figure}")
    reported = {MEAN: (picked,), **{one.name: one.metrics for one in problems}}[owner]
    if figure not in reported and not (owner != MEAN and figure.startswith(LABEL)):
        raise UserError(
            f"of {owner} evaluations report {', '.join(reported)}",
            f"choose one of these, such as dev/{owner}/{reported[0]}, or name it in the hparam best_metric",
            option="objective",
            value=requested,
        )
    return Objective(f"{owner}/{figure}", is_higher)


def _full_name(requested: str, name: str) -> tuple[str, bool]:
    """Returns a figure with its label, and whether higher is better."""
    if name in FIGURES and name not in METRICS:
        name = LABEL + name
    try:
        return name, higher_is_better(name)
    except UnknownNameError as error:
        raise UserError(f"{error}", option="objective", value=requested) from error
