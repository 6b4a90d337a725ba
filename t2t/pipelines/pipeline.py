"""The Beam pipeline: distributes the numbers of the elements among workers, which run the task for each."""

from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.shared import Shared

from t2t.errors import MachineError, UserError
from t2t.pipelines.options import runner_of
from t2t.pipelines.task import PipelineTask

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
