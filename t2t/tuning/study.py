"""A study: its folder, and its identity and trials in the storage of Optuna.

By default that is a journal: a file of lines, in Optuna's format, that several processes write in turn.
"""

import contextlib
import dataclasses
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from t2t.errors import MachineError, UserError, first_few, one_line
from t2t.files.atomic import LockedError, cut_torn_line, exclusive_lock, open_locked, os_errors_as_machine_errors
from t2t.hparams.override import merge_overrides
from t2t.hparams.ranges import RangedHParams
from t2t.tuning.settings import Objective, TuneSettings
from t2t.tuning.space import FixedSampler, grid, suggest


def open_journal(path: Path) -> JournalStorage:
    """Opens or makes a journal; raises OSError if it cannot be opened, or another error if it is damaged."""
    return JournalStorage(_Journal(str(path), JournalLock(path)))


class _Journal(JournalFileBackend):
    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends lines; raises MachineError if the file cannot be written."""
        with os_errors_as_machine_errors(f"cannot write {self._file_path}"):
            super().append_logs(logs)


class JournalLock(JournalFileOpenLock):
    """Locks a journal while a process writes to it.

    Unlike Optuna's own locks, this one ends with its process, even if that is killed; and an incomplete last line is
    removed first, as the next would be appended to it, and the journal could never be read again.
    """

    def __init__(self, path: Path):
        super().__init__(str(path))
        self._path = path
        self._file: BinaryIO | None = None

    def acquire(self) -> bool:
        """Waits for the lock; raises OSError if the journal cannot be written."""
        while self._file is None:
            try:
                self._file = open_locked(self._path.resolve())
            except LockedError:
                time.sleep(0.01)
        try:
            cut_torn_line(self._file)
        except OSError:
            self.release()
            raise
        return True

    def release(self) -> None:
        """Releases the lock, which this process holds."""
        if self._file is not None:
            self._file.close()
            self._file = None


_IDENTITY, _FOLDER, _HOST, _VALUES, _ERROR = "identity", "folder", "host", "hparams", "error"
_STOPPED_AT, _WENT_ON_AT = "stopped_at", "went_on_at"


@dataclasses.dataclass(frozen=True)
class TrialReport:
    """The state of a trial and its results so far."""

    number: int
    state: str
    """`finished`, `stopped` early, `failed` or `training`."""
    hparams: dict[str, Any]
    value: float | None
    """Best value of the objective so far."""
    update: int | None
    """Update of that value."""
    updates: int
    """Update of its last evaluation; 0 before the first."""
    folder: str
    error: str = ""


_STATES = {
    TrialState.COMPLETE: "finished", TrialState.PRUNED: "stopped", TrialState.FAIL: "failed",
    TrialState.RUNNING: "training",
}  # fmt: skip


class Study:
    """The trials of a study; several processes and machines may work on the same study.

    Args:
        folder: of its runs.
        settings: how it is carried out.
        objective: what is optimized.
        ranged: the ranges that are searched.
        identity: values that must be the same when it is resumed, plain JSON.
        first: values of the first trial by hparam; others are random.
        seed: of all choices.
        last_update: number of the last update of a trial that is not stopped early.
    """

    def __init__(
        self,
        folder: Path,
        settings: TuneSettings,
        objective: Objective,
        ranged: RangedHParams,
        identity: dict[str, Any],
        first: dict[str, Any],
        seed: int,
        last_update: int,
    ):
        self.folder = folder.absolute()  # with a shared storage, it identifies this tuner's trials
        self.settings, self.objective, self.ranged = settings, objective, ranged
        self._journal = self.folder / "study.journal"
        self._first, self._seed, self._last_update = first, seed, last_update
        self._grid = grid(ranged, seed) if settings.sampler == "grid" else []
        self.last = min(settings.trials, len(self._grid)) if self._grid else settings.trials
        """Total number of trials."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = self._open()
        self.check_identity(identity)

    def _open(self) -> optuna.Study:
        with os_errors_as_machine_errors(f"cannot write {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
        directions = optuna.study.StudyDirection
        direction = directions.MAXIMIZE if self.objective.higher_is_better else directions.MINIMIZE
        try:
            url = self.settings.storage
            storage: BaseStorage = RDBStorage(url) if url else open_journal(self._journal)
            return optuna.create_study(
                storage=storage, study_name=self._name_in(storage), direction=direction, pruner=self._pruner(),
                load_if_exists=True,
            )  # fmt: skip
        except MachineError:
            raise
        except ImportError as error:  # of Optuna; its cause names the package of the database
            package = getattr(error.__cause__, "name", None) or error.name or one_line(error)
            raise UserError(f"this database needs the package {package}", "pip install it", option="storage") from error
        except OSError as error:
            raise MachineError(f"cannot write {self.folder}: {one_line(error)}") from error
        except Exception as error:  # of SQLAlchemy or the driver of a database, or of reading lines
            if not self.settings.storage:
                raise UserError(
                    f"{self._journal} is damaged: {one_line(error)}", "restore it from a copy, or use another --study"
                ) from error
            raise UserError(
                f"the database of the study cannot be opened: {one_line(error)}",
                "check its URL, and that it runs",
                option="storage",
            ) from error

    def _name_in(self, storage: BaseStorage) -> str:
        """Returns the study's name in the storage; its folder may have been renamed since a journal began."""
        if self.settings.storage:
            return self.settings.study_name or self.folder.name
        names = optuna.get_all_study_names(storage)  # earlier versions named it by its folder
        return self.folder.name if self.folder.name in names else [*names, "study"][0]

    def _pruner(self) -> optuna.pruners.BasePruner:
        if self.settings.pruner == "median":
            return optuna.pruners.MedianPruner(n_startup_trials=self.settings.startup_trials)
        if self.settings.pruner == "hyperband":
            smallest = max(1, self._last_update // 9)  # two rounds of the factor 3
            return optuna.pruners.HyperbandPruner(smallest, self._last_update, reduction_factor=3)
        return optuna.pruners.NopPruner()

    def check_identity(self, identity: dict[str, Any]) -> None:
        """Records values that identify the study, where it has none, as studies of earlier versions.

        Raises:
            UserError: it was begun with other values.
        """
        requested = _without_spaces(json.loads(json.dumps(identity)))
        found = _without_spaces(self._study.user_attrs.get(_IDENTITY, {}))
        wrong = [
            f"{name}: requested {requested[name]}, found {found[name]}"
            for name in sorted(requested.keys() & found.keys())
            if requested[name] != found[name]
        ]
        if wrong:
            raise UserError(
                f"--study={self.folder} is another study: {first_few(wrong)}", "resume that, or use another --study"
            )
        if requested.keys() - found.keys():
            self._study.set_user_attr(_IDENTITY, requested | found)

    def begin(self) -> tuple[Trial, dict[str, Any]] | None:
        """Begins the next trial; returns it and its hparams, or None if the study has all its trials."""
        with self._alone():
            trials = self._study.get_trials(deepcopy=False)
            for one in trials:
                if one.state == TrialState.RUNNING and not _is_chosen(one) and self._is_own(one):
                    return self._choose(one.number, one._trial_id)  # a tuner was killed while choosing
            if sum(one.state != TrialState.WAITING for one in trials) >= self.last:
                return None
            trial = self._study.ask()
            if trial.number >= self.last:  # a tuner on another machine has begun the last one meanwhile
                self._study._storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
                return None
            return self._choose(trial.number, trial._trial_id)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits for the lock that lets only one tuner of this folder begin a trial at a time."""
        while True:
            try:
                with exclusive_lock(self.folder / "begin.lock"):
                    yield
                    return
            except LockedError:
                time.sleep(0.1)

    def _choose(self, number: int, trial_id: int) -> tuple[Trial, dict[str, Any]]:
        """Chooses the hparams of a trial, a function of the seed, its number and the results of earlier trials."""
        self._study.sampler = self._sampler(number)  # by the number in the storage: other machines take numbers too
        trial = Trial(self._study, trial_id)
        trial.set_user_attr(_HOST, socket.gethostname())
        trial.set_user_attr(_FOLDER, str(self._folder_of(number)))
        values = suggest(trial, self.ranged)
        trial.set_user_attr(_VALUES, values)
        return trial, values

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        seed = (self._seed * 1_000_003 + number) % 2**32
        chance = optuna.samplers.RandomSampler(seed)
        if self._grid:
            return FixedSampler(self.ranged, self._grid[min(number, len(self._grid) - 1)], chance)
        if number == 0:
            return FixedSampler(self.ranged, self._first, chance)
        if self.settings.sampler == "random":
            return chance
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=self.settings.startup_trials)

    def _folder_of(self, number: int) -> Path:
        return self.folder / f"trial_{number:04d}"

    def _is_own(self, one: FrozenTrial) -> bool:
        """Returns whether the run of a trial is in this folder; all are, unless machines share a storage."""
        place = (one.user_attrs.get(_HOST), one.user_attrs.get(_FOLDER))
        return not self.settings.storage or place == (socket.gethostname(), str(self._folder_of(one.number)))

    def interrupted(self) -> list[tuple[Trial, dict[str, Any]]]:
        """Returns the unfinished trials of this folder, with their hparams; their tuner may have been killed."""
        found = []
        for one in self._study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            if _is_chosen(one) and self._is_own(one):
                self._study.sampler = self._sampler(one.number)
                found.append((Trial(self._study, one._trial_id), one.user_attrs[_VALUES]))
        return found

    def is_open(self, trial: Trial) -> bool:
        """Returns whether a trial has not ended yet."""
        return self._frozen(trial).state == TrialState.RUNNING

    def _frozen(self, trial: Trial) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[trial.number]

    def report(self, trial: Trial, values: dict[int, float]) -> bool:
        """Reports the evaluations of a trial so far; returns whether to stop it early."""
        frozen = self._frozen(trial)
        known, attributes = frozen.intermediate_values, frozen.user_attrs
        if _STOPPED_AT in attributes:
            return True
        latest = max(known, default=-1)
        if latest > attributes.get(_WENT_ON_AT, -1) and self._stops(trial, latest):
            return True  # a tuner was killed while it decided
        for update, value in sorted(values.items()):
            if update in known or value != value:
                continue
            trial.report(value, update)
            if self._stops(trial, update):
                return True
        return False

    def _stops(self, trial: Trial, update: int) -> bool:
        """Decides and records whether a trial stops early at its latest update, even if this process is killed now."""
        stops = update < self._last_update and trial.should_prune()
        trial.set_user_attr(_STOPPED_AT if stops else _WENT_ON_AT, update)
        return stops

    def is_trained(self, folder: Path) -> bool:
        """Returns whether a run has been evaluated at the last update."""
        return self._last_update in self.objective.values(folder)

    def end(self, trial: Trial, state: str, values: dict[int, float], error: str = "") -> None:
        """Ends a trial as `finished`, `stopped` (early) or `failed`; a trial without a finite value has failed."""
        best = self.objective.best(values)
        if error:
            trial.set_user_attr(_ERROR, error)
        if state == _STATES[TrialState.COMPLETE] and best:
            self._study.tell(trial, best[1])
        else:
            was_stopped = state == _STATES[TrialState.PRUNED] and best
            self._study.tell(trial, state=TrialState.PRUNED if was_stopped else TrialState.FAIL)

    def reports(self) -> list[TrialReport]:
        """Returns reports of all trials, the best first."""
        found = [self._report_of(one) for one in self._study.get_trials(deepcopy=False) if _is_chosen(one)]
        return sorted(found, key=self._rank)

    def _report_of(self, one: FrozenTrial) -> TrialReport:
        best = self.objective.best(one.intermediate_values)
        attributes = one.user_attrs
        return TrialReport(
            number=one.number,
            state=_STATES[one.state],
            hparams=attributes[_VALUES],
            value=best[1] if best else None,
            update=best[0] if best else None,
            updates=max(one.intermediate_values, default=0),
            folder=attributes[_FOLDER] if self.settings.storage else str(self._folder_of(one.number)),
            error=attributes.get(_ERROR, ""),
        )

    def _rank(self, one: TrialReport) -> tuple[bool, bool, float, int]:
        is_failed = one.state == _STATES[TrialState.FAIL]
        return is_failed, one.value is None, 0.0 if one.value is None else self.objective.cost(one.value), one.number


def _without_spaces(identity: dict[str, Any]) -> dict[str, Any]:
    """Returns an identity with its overrides as the file of a study brings them, without spaces and a last comma."""
    return identity | {"hparams": merge_overrides("", identity["hparams"])} if "hparams" in identity else identity


def _is_chosen(one: FrozenTrial) -> bool:
    """Returns whether the hparams of a trial have been chosen."""
    return _VALUES in one.user_attrs and _FOLDER in one.user_attrs
