"""The results of a study: a table, the same as TSV and JSON, and the best hparams as Python code of a set."""

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.tables import aligned, to_tsv
from t2t.hparams.base import HParams
from t2t.tuning.objective import Objective
from t2t.tuning.settings import TuneSettings
from t2t.tuning.study import TrialReport
from t2t.tuning.tuner import repeat_folders

TSV_FILE, JSON_FILE, SET_FILE = "results.tsv", "results.json", "best_set.py"


@dataclasses.dataclass(frozen=True)
class TrialRow:
    """A trial and its repeats with other seeds."""

    report: TrialReport
    repeats: tuple[float, ...] = ()
    """Best value of each."""

    @property
    def mean(self) -> float | None:
        """Mean over the other seeds, without the trial's own value, by which it was chosen; None without repeats."""
        return statistics.fmean(self.repeats) if self.repeats else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over the other seeds; None for fewer than two."""
        return statistics.stdev(self.repeats) if len(self.repeats) > 1 else None


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """The results of a study."""

    study: Path
    """Folder of its runs and of the files with these results."""
    objective: Objective
    rows: tuple[TrialRow, ...]
    """Best first; trials with repeats come before others, ordered by the mean of the repeats."""
    hparams_set: str
    """The set that trials start from."""
    overrides: str
    """Overrides of the set that all trials share."""

    @property
    def best(self) -> TrialRow | None:
        """The best trial; None if no trial has a value."""
        return next((row for row in self.rows if row.report.value is not None and row.report.state != "failed"), None)

    @property
    def is_tie(self) -> bool:
        """Whether several trials have a value, and all the same."""
        values = [
            row.report.value for row in self.rows if row.report.value is not None and row.report.state != "failed"
        ]
        return len(values) > 1 and len(set(values)) == 1

    def records(self) -> list[dict[str, Any]]:
        """Returns a dict for each trial, all with the same keys; an hparam that a trial does not read is None."""
        names = dict.fromkeys(name for row in self.rows for name in row.report.hparams)
        return [
            {
                "trial": row.report.number,
                "state": row.report.state,
                self.objective.figure: row.report.value,
                "at_update": row.report.update,
                "updates": row.report.updates,
                "repeats": list(row.repeats),
                "mean": row.mean,
                "deviation": row.deviation,
                **{name: row.report.hparams.get(name) for name in names},
                "run": row.report.folder,
                "error": row.report.error,
            }
            for row in self.rows
        ]

    def table(self) -> str:
        """Returns the table for a terminal, without empty columns and the paths."""
        records = [{**one, "repeats": " ".join(f"{value:.4g}" for value in one["repeats"])} for one in self.records()]
        hidden = {"run", *(name for name in records[0] if all(one[name] in (None, "") for one in records))}
        return aligned([{name: value for name, value in one.items() if name not in hidden} for one in records])

    def best_set(self, named_set: HParams, hparams: HParams) -> str:
        """Returns a Python module that registers the best hparams as a set.

        Args:
            named_set: the set that trials start from.
            hparams: of the best trial.
        """
        assert self.best is not None, "there is a best trial"
        report, name = self.best.report, f"{self.hparams_set}_tuned"
        changes = {field: value for field, (_, value) in hparams.difference(named_set).items()}
        lines = "".join(f"        {field}={value!r},\n" for field, value in changes.items())
        replaced = f".replace(\n{lines}    )" if lines else ""
        return (
            "from t2t.registry import HPARAMS, register_hparams\n\n\n"
            "@register_hparams\n"
            f"def {name}():\n"
            f'    """{self.hparams_set} with the best of {len(self.rows)} trials: {self.objective.key} '
            f'{report.value:.4g} at update {report.update}."""\n'
            f'    return HPARAMS.get("{self.hparams_set}")(){replaced}\n'
        )

    def write(self, named_set: HParams, hparams: HParams | None) -> None:
        """Writes `results.tsv`, `results.json` and, if there is a best trial, `best_set.py` into the folder."""
        found = {
            "objective": self.objective.key,
            "higher_is_better": self.objective.higher_is_better,
            "hparams_set": self.hparams_set,
            "hparams": self.overrides,
            "trials": self.records(),
        }
        files = {TSV_FILE: to_tsv(self.records()), JSON_FILE: json.dumps(found, indent=2) + "\n"}
        if hparams is not None:
            files[SET_FILE] = self.best_set(named_set, hparams)
        with os_errors_as_machine_errors(f"cannot write {self.study}"):
            for name, text in files.items():
                write_atomically(self.study / name, text.encode())


def collect(
    study: Path,
    objective: Objective,
    reports: list[TrialReport],
    settings: TuneSettings,
    hparams_set: str,
    overrides: str,
) -> StudyResult:
    """Returns the results so far, with the repeats that have been evaluated."""
    rows = []
    for report in reports:
        found = [objective.best(objective.values(folder)) for folder in repeat_folders(study, report, settings)]
        rows.append(TrialRow(report, tuple(best[1] for best in found if best)))
    repeated = [row for row in rows if row.mean is not None]
    repeated.sort(key=lambda row: objective.cost(row.mean or 0.0))
    rest = [row for row in rows if row.mean is None]
    return StudyResult(study, objective, (*repeated, *rest), hparams_set, overrides)
