"""Generating data with Apache Beam: workers draw the text that vocabularies are learnt from, and make the shards.

If duplicates are dropped, workers first compute digests of the samples. The command makes the plan, finds the
duplicates and merges the shards, as it does without Beam. Workers need the same code as the command, and access to its
raw files and data folder under the same paths.
"""

import contextlib
import dataclasses
import functools
import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from t2t.data.generation.data_folder import check_places, data_folder, existing_data, lock_generation, partial_folder
from t2t.data.generation.duplicates import digest_folder, digest_shard, find_duplicates
from t2t.data.generation.generate import ReadingProgress, finish, kept_where_useful, open_plan
from t2t.data.generation.plan import WORK, GenerationJob, GenerationPlan, describe_differences, identify
from t2t.data.generation.shard_job import generate_shard, shard_folder
from t2t.data.manifest import Manifest
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.paths import local_path
from t2t.pipelines.launch import Runner, run_task
from t2t.pipelines.pipeline import Failures, PipelineTask
from t2t.problems.base import Problem
from t2t.registry.plugins import load_plugins
from t2t.runs.config import RunConfig
from t2t.runs.data import stored_problems
from t2t.runs.names import get_problem
from t2t.specs import TRAIN

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedProblem:
    """The name and options of a problem, from which a worker creates it after importing the plug-in."""

    name: str
    options: Mapping[str, Any]
    t2t_usr_dir: str
    """Folder of a plug-in, empty for none."""

    def make(self) -> Problem:
        """Returns the problem; raises as `load_plugins` and `get_problem`."""
        load_plugins(self.t2t_usr_dir or None)
        return get_problem(self.name, self.options)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardTask(PipelineTask):
    """Base class of tasks on the shards of a plan."""

    named: NamedProblem
    plan: GenerationPlan
    folder: Path
    """Where the data is made."""
    tmp_dir: Path

    def open(self) -> GenerationJob:
        """Returns the job.

        Raises:
            UserError: it would make different data here than planned.
        """
        problem, planned = self.named.make(), self.plan.identity
        sizes = planned.most_examples, planned.most_bytes
        found = identify(problem, self.tmp_dir, planned.seed, *sizes, trusted=planned.raw_files)
        if differing := describe_differences(planned, found):
            raise UserError(
                f"a worker would make other data of problem {problem.name} than the command that started it "
                f"({differing})",
                "give all machines the same code and raw files",
            )
        return GenerationJob(self.plan, problem, self.folder, self.tmp_dir)


class MakeShards(ShardTask):
    """Makes the shards of all splits."""

    @functools.cached_property
    def shards(self) -> list[tuple[str, int]]:
        """Split and number of each shard."""
        return self.plan.every_shard()

    def run(self, opened: GenerationJob, element: int) -> dict[str, int]:
        """Makes a shard, see `generate_shard`."""
        result = generate_shard(opened, *self.shards[element])
        dropped = {f"dropped {reason}": count for reason, count in result.counts.dropped.items()}
        repaired = {f"repaired: {what}": count for what, count in result.counts.repaired.items()}
        return {"examples read": result.counts.read, "examples written": result.examples, **dropped, **repaired}

    def is_done(self, element: int) -> bool:
        """Returns whether the folder of the shard exists."""
        return shard_folder(self.folder, *self.shards[element]).is_dir()


class DigestShards(ShardTask):
    """Computes digests of the samples of the training split, by which duplicates are found."""

    def run(self, opened: GenerationJob, element: int) -> dict[str, int]:
        """Computes the digests of a shard, see `digest_shard`."""
        return {"samples digested": digest_shard(opened, element).samples}

    def is_done(self, element: int) -> bool:
        """Returns whether the folder of the digests exists."""
        return digest_folder(self.folder, element).is_dir()


@dataclasses.dataclass(frozen=True, kw_only=True)
class CallFunction(PipelineTask):
    """Calls a function with a problem and several tuples of arguments; stores the results, plain JSON, in files."""

    named: NamedProblem
    function: Callable[..., Any]
    calls: tuple[tuple, ...]
    folder: Path
    """Folder for the results, empty at first."""

    def open(self) -> Problem:
        """Returns the problem."""
        return self.named.make()

    def run(self, opened: Problem, element: int) -> dict[str, int]:
        """Makes one call."""
        result, path = self.function(opened, *self.calls[element]), self._path(element)
        with os_errors_as_machine_errors(f"cannot write {path}"):
            write_atomically(path, json.dumps(result).encode())
        return {}

    def is_done(self, element: int) -> bool:
        """Returns whether the result of a call is stored."""
        return self._path(element).exists()

    def results(self) -> Iterator[Any]:
        """Yields the results in order."""
        for element in range(self.count):
            yield json.loads(self._path(element).read_bytes())

    def _path(self, element: int) -> Path:
        return self.folder / f"{element:05d}.json"


def generate_all(config: RunConfig, seed: int, options: str, runner: Runner = run_task) -> list[Manifest]:
    """Generates the data of each problem of a request with Apache Beam; returns the manifests.

    Args:
        config: has the problems and folders.
        seed: of all random choices in the data.
        options: of Apache Beam, checked.
        runner: carries out the tasks, see `run_task`.

    Raises:
        UserError: see `t2t.data.generation.generate.generate`.
        MachineError: see `t2t.data.generation.generate.generate` and `run_task`.
    """
    t2t_usr_dir = str(local_path(config.t2t_usr_dir).absolute()) if config.t2t_usr_dir else ""
    manifests = []
    for part, problem in stored_problems(config):
        named = NamedProblem(name=problem.name, options=problem.options.changed(), t2t_usr_dir=t2t_usr_dir)
        manifests.append(_generate(named, problem, part.data_folder, part.tmp_folder.absolute(), seed, options, runner))
    return manifests


def _generate(
    named: NamedProblem, problem: Problem, data_dir: Path, tmp_dir: Path, seed: int, options: str, runner: Runner
) -> Manifest:
    folder = data_folder(data_dir, problem).absolute()
    if (existing := existing_data(folder, problem, seed, tmp_dir)) is not None:
        return existing
    check_places(folder)
    with lock_generation(folder):
        if (existing := existing_data(folder, problem, seed, tmp_dir)) is not None:
            return existing
        log.info("generating %s in %s by Apache Beam", problem.stored.name, folder)
        partial, identity = partial_folder(folder), identify(problem, tmp_dir, seed)
        with kept_where_useful(partial):
            call_each = functools.partial(_call_each, named, options, runner, partial / WORK / "calls")
            with contextlib.closing(ReadingProgress()) as shown:
                plan = open_plan(identity, problem, partial, tmp_dir, call_each, shown.show)
            failures = Failures(partial / WORK / "failures")
            of_plan: dict[str, Any] = {"named": named, "plan": plan, "folder": partial, "tmp_dir": tmp_dir}
            if TRAIN in plan.shards and problem.duplicate_key() is not None:
                runner(DigestShards(count=plan.shards[TRAIN], failures=failures, **of_plan), options, "duplicates")
                find_duplicates(plan, partial)
            runner(
                MakeShards(count=len(plan.every_shard()), failures=failures, **of_plan), options, problem.stored.name
            )
            return finish(plan, problem, partial, folder)


def _call_each(
    named: NamedProblem,
    options: str,
    runner: Runner,
    folder: Path,
    problem: Problem,
    function: Callable[..., Any],
    calls: Iterable[tuple],
) -> Iterator[Any]:
    """Calls a function of a problem in the workers; a `CallEach` once the first four are bound."""
    with os_errors_as_machine_errors(f"cannot write {folder}"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    arguments = tuple(calls)
    task = CallFunction(
        named=named, function=function, calls=arguments, folder=folder, count=len(arguments),
        failures=Failures(folder / "failures"),
    )  # fmt: skip
    runner(task, options, "vocabulary")
    return task.results()
