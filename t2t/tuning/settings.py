"""How a study is carried out, independent of what its trials train."""

import dataclasses
import re
from pathlib import Path

from t2t.errors import UserError
from t2t.hparams.field import check_values, param

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
                f"--storage={self.storage}: it is no URL; give one such as sqlite:////path/study.db, or "
                f"leave it out for a file in the folder of the study"
            )
        if self.study_name and not self.storage:
            raise UserError(f"--study_name={self.study_name}: it names a study in a database; give --storage too")
