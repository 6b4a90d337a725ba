"""The Beam pipeline: its options, the task that it runs for each element, and how errors reach the command."""

import abc
import contextlib
import dataclasses
import io
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions, WorkerOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineRunner, create_runner
from apache_beam.utils.shared import Shared

from t2t.errors import MachineError, T2TError, UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.trust import read_sealed, write_sealed

_KINDS = {"user": UserError, "machine": MachineError}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineTask(abc.ABC):
    """The work of a pipeline: elements numbered from 0; each writes a file to a folder that all workers share.

    It is pickled for the workers, so it holds only names, paths and numbers, from which `open` creates objects.
    """

    count: int
    """Number of elements."""
    failures: "Failures"
    """Errors of its workers."""

    @abc.abstractmethod
    def open(self) -> Any:
        """Returns what `run` needs; called once in each worker."""

    @abc.abstractmethod
    def run(self, opened: Any, element: int) -> Mapping[str, int]:
        """Does the work of an element, unless it is done; returns its counters, by name.

        Raises:
            UserError: another try would fail in the same way.
            MachineError: another try may succeed.
        """

    @abc.abstractmethod
    def is_done(self, element: int) -> bool:
        """Returns whether the work of an element is done, for a progress bar."""


class Failures:
    """Errors of workers, as files in a folder that the workers and the command share.

    A runner reports the error of a worker as text in its own format. So the messages for the user are stored here.

    Args:
        folder: used only for these files.
    """

    def __init__(self, folder: Path):
        self._folder = folder

    def clear(self) -> None:
        """Removes the errors of earlier pipelines."""
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, element: int, error: T2TError) -> None:
        """Stores the error of an element.

        Raises:
            MachineError: it cannot be written.
        """
        kind = "user" if isinstance(error, UserError) else "machine"
        path = self._path(element)
        with os_errors_as_machine_errors(f"cannot write {path}"):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_sealed(path, {"kind": kind, "message": str(error)})

    def remove(self, element: int) -> None:
        """Removes the error of an element, if any, after a successful try."""
        with contextlib.suppress(OSError):
            self._path(element).unlink()

    def first(self) -> T2TError | None:
        """Returns the error of the first element that has one."""
        for path in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError):  # removed meanwhile, or damaged
                found = read_sealed(path)
                return _KINDS[found["kind"]](found["message"])
        return None

    def _path(self, element: int) -> Path:
        return self._folder / f"{element:09d}.json"


_EXAMPLE = "--runner=DirectRunner --direct_num_workers=2 --direct_running_mode=multi_processing"
_LOCAL = ("directrunner", "switchingdirectrunner", "fnapirunner")


def parse_beam_options(text: str) -> PipelineOptions:
    """Parses options in the form of a command line, e.g. `--runner=DirectRunner --direct_num_workers=2`.

    Raises:
        UserError: the text cannot be parsed, an option is unknown or has a wrong value, or the runner is not installed.
            Unknown options are allowed for runners of clusters, which may define them.
    """
    printed = io.StringIO()
    try:
        words = shlex.split(text)
        if wrong := [word for word in words if not word.startswith("--") or word == "--help"]:
            raise ValueError(f"{wrong[0]!r} is not an option")
        with contextlib.redirect_stderr(printed):
            options = PipelineOptions(words)
            known, given = options.get_all_options(), options.get_all_options(retain_unknown_options=True)
        if not runs_here(options):
            create_runner(options.view_as(StandardOptions).runner)
        elif unknown := sorted(given.keys() - known.keys()):
            raise ValueError(f"there is no option {', '.join(f'--{name}' for name in unknown)}")
    except SystemExit:
        raise _mistake(text, printed.getvalue().rpartition("error: ")[2]) from None
    except (ValueError, ImportError) as error:
        raise _mistake(text, error) from None
    return options


def runs_here(options: PipelineOptions) -> bool:
    """Returns whether the pipeline runs on this machine, in processes that this one starts."""
    return (options.view_as(StandardOptions).runner or _LOCAL[0]).lower() in _LOCAL


def runner_of(options: PipelineOptions) -> PipelineRunner:
    """Returns the runner of a pipeline.

    By default, DirectRunner would first try Prism, which it downloads and which does not support
    `--direct_num_workers`.
    """
    if not runs_here(options):
        return create_runner(options.view_as(StandardOptions).runner)
    workers = options.view_as(WorkerOptions)
    workers.default_sdk_harness_log_level = workers.default_sdk_harness_log_level or "ERROR"
    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    return FnApiRunner(
        provision_info=ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded))
    )


def _mistake(text: str, reason: object) -> UserError:
    return UserError(
        f"{one_line(reason)}",
        f"give options of Apache Beam, each as --name=value, e.g. {_EXAMPLE}",
        option="beam_options",
        value=text,
    )


NAMESPACE = "t2t"
"""Namespace of the counters among Beam's metrics."""


class RunTask(beam.DoFn):
    """Runs a task on elements; calls its `open` once in each worker, even if that has several threads."""

    def __init__(self, task: PipelineTask):
        self._task, self._shared = task, Shared()

    def process(self, element: int) -> None:
        """Runs the task for one element, unless another has already failed with a UserError."""
        failures = self._task.failures
        if isinstance(failures.first(), UserError):
            return
        try:
            opened = self._shared.acquire(lambda: _Opened(self._task.open()))
            counters = self._task.run(opened.value, element)
        except UserError as error:
            failures.add(element, error)
            return
        except MachineError as error:
            failures.add(element, error)
            raise  # the runner may try again, perhaps on another machine
        failures.remove(element)
        for name, count in counters.items():
            Metrics.counter(NAMESPACE, name).inc(count)


class _Opened:
    """Wraps any object, since `Shared` keeps a weak reference, which not every object allows."""

    def __init__(self, value: Any):
        self.value = value


def run_pipeline(task: PipelineTask, elements: Sequence[int], options: PipelineOptions) -> dict[str, int]:
    """Runs a task for each of the elements and waits until all are done; returns the counters by name.

    Raises:
        Exception: the pipeline failed; see `task.failures`.
    """
    pipeline = beam.Pipeline(runner=runner_of(options), options=options)
    numbers = pipeline | "Shards" >> beam.Create(list(elements)) | beam.Reshuffle()  # else one worker would get all
    _ = numbers | type(task).__name__ >> beam.ParDo(RunTask(task))
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    return {counter.key.metric.name: counter.result for counter in found}
