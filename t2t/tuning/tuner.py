"""Runs a study: begins trials, follows their evaluations, stops those that fall behind, repeats the best.

The process of a trial survives its tuner, is found by the next one, and is restarted if killed.
"""

import contextlib
import dataclasses
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from optuna.trial import Trial

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError, one_line
from t2t.files.atomic import LockedError, exclusive_lock, is_locked, open_locked, os_errors_as_machine_errors
from t2t.hparams.override import format_overrides
from t2t.runs.names import merge_hparams
from t2t.runs.startup import environment_of_child
from t2t.tuning.settings import TuneSettings
from t2t.tuning.study import Study, TrialReport

_SECONDS_BETWEEN_LOOKS = 0.5
_MOST_FAILURES = 3
"""If the first so many trials all fail, the study fails: then the cause is not their hparams."""

log = logging.getLogger("t2t")


FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"
"""How a run ended: trained to the end, by an error, or by `stop`."""

_PROGRAM = "import sys; from t2t.cli.trainer import main; sys.exit(main(['t2t-trainer', *sys.argv[1:]]))"
_MOST_STARTS = 3
"""How often a process may be killed without a checkpoint in between."""


class TrialRun:
    """A run that `t2t-trainer` trains in a separate process.

    Beside the folder of the run, `logs/` holds the output of the process, the lock of its tuner, and a file that the
    process keeps locked as long as it lives, even after its tuner was killed.

    Args:
        folder: of the run.
        arguments: of `t2t-trainer`, without --output_dir.
        gpus: value of CUDA_VISIBLE_DEVICES; None leaves it unchanged.
    """

    def __init__(self, folder: Path, arguments: Sequence[str], gpus: str | None = None):
        self.folder, self.gpus, self._arguments = folder, gpus, list(arguments)
        logs = folder.parent / "logs"
        self.log_file, self._tuner_lock = logs / f"{folder.name}.txt", logs / f"{folder.name}.lock"
        self._process_lock = logs / f"{folder.name}.process"
        self._process: subprocess.Popen | None = None
        self._locks = contextlib.ExitStack()
        self._is_stopping, self._starts, self._saved = False, 0, -1

    def take(self) -> bool:
        """Makes this process the run's tuner; returns False if it has another tuner."""
        with os_errors_as_machine_errors(f"cannot write {self.log_file.parent}"):
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._locks.enter_context(exclusive_lock(self._tuner_lock))
            except LockedError:
                return False
        return True

    def release(self) -> None:
        """Gives the run up, so that other tuners can take it."""
        self._locks.close()

    def poll(self) -> str:
        """Returns how the run has ended, "" while it trains; starts its process, and restarts it if it was killed."""
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                return ""
            self._process = None
            if status == 0:
                return FINISHED
            if self._is_stopping:
                return STOPPED
            if 0 < status < 128:  # an error that the trainer reported
                return FAILED
        elif self._found_pid():
            return ""
        if self._is_stopping:
            return STOPPED
        return self._start()

    def stop(self) -> None:
        """Asks the process to save and exit; `poll` then returns STOPPED once it has."""
        self._is_stopping = True
        with contextlib.suppress(ProcessLookupError):
            if self._process is not None:
                self._process.send_signal(signal.SIGTERM)
            elif (pid := self._found_pid()) > 0:
                os.kill(pid, signal.SIGTERM)

    def wait(self) -> None:
        """Waits for the end of a process that this object started, after `stop`."""
        if self._process is not None:
            self._process.wait()

    def describe_failure(self) -> str:
        """Returns why the run failed: the last line that its process printed, or that it was killed too often."""
        if self._starts > _MOST_STARTS:
            return f"its process was killed {_MOST_STARTS} times without a checkpoint in between"
        with contextlib.suppress(OSError):
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def _start(self) -> str:
        saved = self._latest()
        self._starts = 1 if saved > self._saved else self._starts + 1
        self._saved = saved
        if self._starts > _MOST_STARTS:
            return FAILED
        chosen = {} if self.gpus is None else {"CUDA_VISIBLE_DEVICES": self.gpus}
        with (
            os_errors_as_machine_errors(f"cannot write {self.log_file.parent}"),
            self.log_file.open("ab") as log,
            open_locked(self._process_lock) as lock,
        ):
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, f"--output_dir={self.folder}", *self._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment_of_child(**chosen),
                process_group=0, pass_fds=[lock.fileno()],
            )  # fmt: skip
            lock.truncate(0)
            lock.write(f"{self._process.pid}\n".encode())
            lock.flush()
        return ""

    def _latest(self) -> int:
        """Returns the step of the latest checkpoint, 0 without any."""
        if not RunDir.exists(self.folder):
            return 0
        return max(CheckpointStore(self.folder / "checkpoints").steps(), default=0)

    def _found_pid(self) -> int:
        """Returns the id of a live process that another tuner started; 0 for none, -1 if its id is unknown."""
        if not is_locked(self._process_lock):
            return 0
        with contextlib.suppress(OSError, ValueError):
            return int(self._process_lock.read_text())
        return -1


@dataclasses.dataclass(frozen=True)
class TrialCommand:
    """The arguments of `t2t-trainer` for a trial."""

    arguments: tuple[str, ...]
    """All but --output_dir, --hparams and --random_seed."""
    overrides: str
    """Value of `--hparams` without the searched values."""
    hparams_set: str
    seed: int
    check: Callable[[str], object]
    """Takes a value of `--hparams`; raises UserError for hparams that do not fit together."""

    def overrides_of(self, values: dict[str, Any]) -> str:
        """Returns the value of `--hparams` of a trial, without what the searched values leave unread."""
        return merge_hparams(self.hparams_set, self.overrides, format_overrides(values))

    def arguments_of(self, values: dict[str, Any], seed: int) -> list[str]:
        """Returns all arguments of a trial but for --output_dir."""
        return [*self.arguments, f"--hparams={self.overrides_of(values)}", f"--random_seed={seed}"]


@dataclasses.dataclass
class _Slot:
    """A trial that is training."""

    number: int
    run: TrialRun
    trial: Trial
    gpus: int
    """Index of its share of the GPUs."""
    size: int = 0
    """Size of its `metrics.jsonl` at the last look, in bytes."""


class Tuner:
    """Trains the trials of a study, `parallel` at a time; a killed study is resumed with the same trials."""

    def __init__(self, study: Study, command: TrialCommand, settings: TuneSettings):
        self._study, self._command, self._settings = study, command, settings
        self._slots: list[_Slot] = []
        self._gpu_shares = gpu_shares(settings)
        self._interrupted = study.interrupted()

    def run(self, changed: Callable[[], Any] = lambda: None) -> None:
        """Trains until the study has all its trials, then repeats the best; calls `changed` after each run.

        Raises:
            UserError: the first trials have all failed.
        """
        try:
            while self._fill() or self._slots:
                for slot in list(self._slots):
                    if self._look(slot):
                        changed()
                time.sleep(_SECONDS_BETWEEN_LOOKS)
            for _ in self._repeat():
                changed()
        except UserError:
            changed()  # with the last failure
            raise
        finally:  # they save, and the same command resumes them
            _stop([slot.run for slot in self._slots])

    def _fill(self) -> bool:
        """Begins trials while there are free slots; returns whether another may begin later."""
        while len(self._slots) < self._settings.parallel:
            if self._interrupted:
                self._begin(*self._interrupted.pop(0), "goes on")
                continue
            begun = self._study.begin()
            if begun is None:
                return False
            self._begin(*begun, "begins")
        return True

    def _begin(self, trial: Trial, values: dict[str, Any], how: str) -> None:
        folder = self._study.folder / f"trial_{trial.number:04d}"
        taken = {slot.gpus for slot in self._slots}
        share = next(number for number in range(len(taken) + 1) if number not in taken)
        gpus = self._gpu_shares[share % len(self._gpu_shares)] if self._gpu_shares else None
        run = TrialRun(folder, self._command.arguments_of(values, self._command.seed), gpus)
        if not run.take() or not self._study.is_open(trial):  # another tuner has it
            run.release()
            return
        log.info("trial %d %s: %s", trial.number, how, format_overrides(values))
        try:
            self._command.check(self._command.overrides_of(values))
        except UserError as error:
            self._end(_Slot(trial.number, run, trial, share), FAILED, one_line(error))
            return
        if self._study.report(trial, self._study.objective.values(folder)):  # a killed tuner may have decided so
            run.stop()
        self._slots.append(_Slot(trial.number, run, trial, share))

    def _look(self, slot: _Slot) -> bool:
        """Reports new evaluations of a trial; returns whether it has ended."""
        how = slot.run.poll()
        size = _size(slot.run.folder / "metrics.jsonl")
        if size != slot.size or how:
            falls_behind = self._study.report(slot.trial, self._values(slot))
            if falls_behind and not how:
                slot.run.stop()
            elif falls_behind and how == FINISHED:
                how = STOPPED
            slot.size = size
        if not how:
            return False
        self._slots.remove(slot)
        self._end(slot, how, slot.run.describe_failure() if how == FAILED else "")
        return True

    def _values(self, slot: _Slot) -> dict[int, float]:
        return self._study.objective.values(slot.run.folder)

    def _end(self, slot: _Slot, how: str, error: str = "") -> None:
        self._study.end(slot.trial, how, self._values(slot), error)
        slot.run.release()
        reports, figure = self._study.reports(), self._study.objective.figure
        own = next(one for one in reports if one.number == slot.number)
        said = f": {figure} {own.value:.4g} at update {own.update}" if own.value is not None and not error else ""
        leader = (
            f"; best so far {reports[0].value:.4g}, trial {reports[0].number}" if reports[0].value is not None else ""
        )
        log.info("trial %d %s%s%s%s", slot.number, how, said, f": {error}" if error else "", leader)
        done = [one for one in reports if one.state != "training"]
        if how == FAILED and len(done) >= _MOST_FAILURES and all(one.state == FAILED for one in done):
            raise UserError(
                f"the first {len(done)} trials of --study={self._study.folder} failed, the last with: "
                f"{error or 'no word'}",
                f"see {slot.run.log_file.parent}",
            )

    def _repeat(self) -> Iterator[TrialRun]:
        """Trains the best trials with other seeds, and yields each run that has ended."""
        finished = [one for one in self._study.reports() if one.state == FINISHED]
        waiting = [
            TrialRun(folder, self._command.arguments_of(one.hparams, self._command.seed + seed))
            for one in finished[: self._settings.best]
            for seed, folder in enumerate(repeat_folders(self._study.folder, one, self._settings), start=1)
            if not self._study.is_trained(folder)
        ]
        running: list[tuple[int, TrialRun]] = []
        try:
            while waiting or running:
                while waiting and len(running) < self._settings.parallel:
                    run = waiting.pop(0)
                    if run.take():
                        share = next(n for n in range(len(running) + 1) if n not in [taken for taken, _ in running])
                        run.gpus = self._gpu_shares[share % len(self._gpu_shares)] if self._gpu_shares else None
                        running.append((share, run))
                        log.info("%s trains with another seed", run.folder.name)
                for share, run in list(running):
                    if how := run.poll():
                        running.remove((share, run))
                        run.release()
                        objective = self._study.objective
                        best = objective.best(objective.values(run.folder))
                        said = f": {objective.figure} {best[1]:.4g} at update {best[0]}" if best else ""
                        said = f": {run.describe_failure()}" if how == FAILED else said
                        log.info("%s %s%s", run.folder.name, how, said)
                        yield run
                time.sleep(_SECONDS_BETWEEN_LOOKS if running else 0)
        finally:
            _stop([run for _, run in running])


def _stop(runs: Sequence[TrialRun]) -> None:
    for run in runs:
        run.stop()
    for run in runs:
        run.wait()
        run.release()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def repeat_folders(study: Path, one: TrialReport, settings: TuneSettings) -> list[Path]:
    """Returns the folders of the repeats of a trial with other seeds, in the folder of the study on this machine.

    The trial itself may have been trained on another machine, which shares only the storage.
    """
    name = Path(one.folder).name
    return [study / f"{name}_seed_{seed}" for seed in range(1, settings.repeats + 1)]


def gpu_shares(settings: TuneSettings) -> list[str]:
    """Returns values of CUDA_VISIBLE_DEVICES, one for each parallel trial; none if all trials use all GPUs.

    Raises:
        UserError: fewer GPUs are visible than the parallel trials need together.
    """
    each, needed = settings.trial_gpus, settings.trial_gpus * settings.parallel
    if not each:
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(n) for n in range(needed)] if visible is None else [one for one in visible.split(",") if one]
    if len(names) < needed:
        raise UserError(
            f"--parallel={settings.parallel} --trial_gpus={each}: that is {needed} GPUs, and "
            f"CUDA_VISIBLE_DEVICES={visible} shows {len(names)}",
            "lower one of them",
        )
    return [",".join(names[first : first + each]) for first in range(0, needed, each)]
