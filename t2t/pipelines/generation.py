"""Generating data by Apache Beam: workers make the shards, and before that sample the text of which vocabularies are learnt.

The command makes the plan and merges, as it does without Beam; workers need the same code, the raw files and the folder
of the data.
"""

import dataclasses
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from t2t.data.data_folder import check_places, data_folder, existing_data, lock_generation, partial_folder
from t2t.data.generate import finish, open_plan
from t2t.data.manifest import Manifest
from t2t.data.plan import WORK, Plan, identify, is_same
from t2t.data.shard_job import generate_shard, shard_folder
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.trust import read_sealed, sealed
from t2t.pipelines.launch import run_task
from t2t.pipelines.task import Failures
from t2t.problems.base import Problem
from t2t.registry.plugins import load_plugins
from t2t.runs.names import get_problem

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedProblem:
    """How a worker comes by a problem: plug-ins are imported there, and the name is looked up."""

    name: str
    options: Mapping[str, Any]
    usr_dir: str
    """Folder of a plug-in, empty for none."""

    def make(self) -> Problem:
        """Returns the problem."""
        load_plugins(self.usr_dir or None)
        return get_problem(self.name, self.options)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MakeShards:
    """Makes the shards of a plan."""

    named: NamedProblem
    plan: Plan
    folder: Path
    """In which the data are made."""
    tmp_dir: Path

    @property
    def count(self) -> int:
        """Number of shards, of all splits."""
        return len(self.plan.every_shard())

    @property
    def failures(self) -> Failures:
        """Errors of workers."""
        return Failures(self.folder / WORK / "failures")

    def open(self) -> Problem:
        """Returns the problem.

        Raises:
            UserError: it is not what the plan was made for.
        """
        problem, planned = self.named.make(), self.plan.identity
        found = identify(
            problem, self.tmp_dir, planned.seed, planned.most_examples, planned.most_bytes, planned.raw_files
        )
        if not is_same(found, planned):
            raise UserError(
                f"a worker has another version of problem {problem.name}, of t2t or of the raw files than the command "
                f"that started it; install the same versions on all machines"
            )
        return problem

    def run(self, opened: Problem, element: int) -> dict[str, int]:
        """Makes a shard, see `generate_shard`."""
        split, shard = self.plan.every_shard()[element]
        result = generate_shard(self.plan, opened, split, shard, self.folder, self.tmp_dir)
        counts = result.counts
        named = {f"dropped: {reason}": count for reason, count in counts.dropped.items()}
        named |= {f"mended: {what}": count for what, count in counts.mended.items()}
        return {"examples read": counts.read, "examples written": result.examples} | named

    def is_done(self, element: int) -> bool:
        """Returns whether there is a folder of the shard."""
        return shard_folder(self.folder, *self.plan.every_shard()[element]).is_dir()


@dataclasses.dataclass(frozen=True, kw_only=True)
class CallMethod:
    """Calls a method of a problem with each of some tuples of arguments, and keeps what it returns, which is plain JSON."""

    named: NamedProblem
    method: str
    calls: tuple[tuple, ...]
    folder: Path
    """For what is returned; empty at first."""

    @property
    def count(self) -> int:
        """Number of calls."""
        return len(self.calls)

    @property
    def failures(self) -> Failures:
        """Errors of workers."""
        return Failures(self.folder / "failures")

    def open(self) -> Problem:
        """Returns the problem."""
        return self.named.make()

    def run(self, opened: Problem, element: int) -> dict[str, int]:
        """Makes one call."""
        value, path = getattr(opened, self.method)(*self.calls[element]), self._path(element)
        with os_errors_as_machine_errors(f"cannot write {path}"):
            write_atomically(path, json.dumps(sealed(path.name, {"value": value}), ensure_ascii=False).encode())
        return {}

    def is_done(self, element: int) -> bool:
        """Returns whether a call has returned."""
        return self._path(element).exists()

    def results(self) -> Iterator[Any]:
        """Yields what the calls returned, in order."""
        for element in range(self.count):
            yield read_sealed(self._path(element))["value"]

    def _path(self, element: int) -> Path:
        return self.folder / f"{element:05d}.json"


class BeamCalls:
    """Calls methods of a problem in the workers of Apache Beam, as `t2t.data.worker_pool.WorkerPool` in processes.

    Args:
        named: the problem.
        options: of Apache Beam, checked.
        folder: for what is returned.
    """

    def __init__(self, named: NamedProblem, options: str, folder: Path):
        self._named, self._options, self._folder = named, options, folder

    def call_each(self, problem: Problem, method: str, calls: Iterable[tuple]) -> Iterator[Any]:
        """Yields the results of a method of the problem with each of some tuples of arguments; see `Source.call_each`.

        Raises:
            UserError: that of the first call that has one.
            MachineError: a worker died, or results cannot be written.
        """
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir()
        task = CallMethod(named=self._named, method=method, calls=tuple(calls), folder=self._folder)
        run_task(task, self._options, "vocabulary")
        return task.results()


def generate(
    named: NamedProblem, problem: Problem, data_dir: Path | str, tmp_dir: Path | str, seed: int, options: str
) -> Manifest:
    """Generates the data of a problem by Apache Beam; the bytes are those of `t2t.data.generate.generate`.

    Args:
        named: how workers come by the problem.
        problem: what to generate; of a variant (`_rev`, `_copy`) the base.
        data_dir: the data goes to `<data_dir>/<problem.data_name>`; all workers share it.
        tmp_dir: raw files and downloads; all workers share it.
        seed: of everything that chance decides in the data.
        options: of Apache Beam, checked.

    Raises:
        UserError: see `t2t.data.generate.generate`.
        MachineError: the same; a worker died, or the pipeline failed otherwise.
    """
    folder, tmp_dir = data_folder(data_dir, problem).absolute(), local_path(tmp_dir).absolute()
    if (existing := existing_data(folder, problem, seed, tmp_dir)) is not None:
        return existing
    check_places(folder)
    with lock_generation(folder):
        if (existing := existing_data(folder, problem, seed, tmp_dir)) is not None:
            return existing
        log.info("generating %s in %s by Apache Beam", problem.data_name, folder)
        partial, identity = partial_folder(folder), identify(problem, tmp_dir, seed)
        with kept_where_useful(partial), contextlib.closing(ReadingProgress()) as shown:
            calls = BeamCalls(named, options, partial / WORK / "calls")
            plan = open_plan(identity, problem, partial, tmp_dir, calls, shown.show)
            run_task(MakeShards(named=named, plan=plan, folder=partial, tmp_dir=tmp_dir), options, problem.data_name)
            return finish(plan, problem, partial, folder)
