"""Decoding, scoring and aligning files by Apache Beam: each worker loads the model once and answers shards of the file."""

import dataclasses
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t.errors import UserError
from t2t.inference.engine_choice import EngineChoice
from t2t.inference.files.parts import Part, part_of, shard_counts
from t2t.inference.files.shards import Shard, source_index
from t2t.pipelines.launch import run_task
from t2t.pipelines.task import Failures
from t2t.runs.startup import import_quietly

MOST_SHARDS = 1000
"""Of a file: large enough for any number of workers, and few enough files."""

_MODES = {"decoded": ("t2t.inference.files.job", "decode_file", "Job"),
          "scored": ("t2t.inference.files.scoring", "score_file", "FileJob"),
          "aligned": ("t2t.inference.files.scoring", "align_file", "FileJob")}  # fmt: skip
"""What is done to lines, with the module, its function and its class of jobs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerShards:
    """Answers the shards of a file, each into its part."""

    verb: str
    """What is done to lines: `decoded`, `scored` or `aligned`."""
    job: Mapping[str, Any]
    """Fields of the job without its shard; paths are absolute."""
    count: int
    """Number of shards."""
    runs: tuple[tuple[Path, Path], ...]
    """Folder and checkpoint of each run."""
    average: str
    """See `t2t.runs.ensembles.load_runs`."""
    engine: EngineChoice
    loading: Mapping[str, Any]
    """Other arguments of `t2t.runs.loading.load`."""
    dictionary: Mapping[str, str]
    """For `replace_unknown`."""

    @property
    def failures(self) -> Failures:
        """Errors of workers."""
        return Failures(Path(f"{self.job['target']}.failures"))

    def open(self) -> "_Answerer":
        """Loads the model."""
        loaded = import_quietly("t2t.runs.ensembles").load_runs(self.runs, self.average, self.engine, **self.loading)
        return _Answerer(loaded.with_dictionary(self.dictionary).translator(), threading.Lock())

    def run(self, opened: "_Answerer", element: int) -> dict[str, int]:
        """Answers one shard."""
        module_name, function, job_class = _MODES[self.verb]
        module = import_quietly(module_name)
        job = getattr(module, job_class)(**self.job, shard=Shard(element, self.count))
        with opened.lock:
            report = getattr(module, function)(opened.translator, job)
        return {f"lines {self.verb}": report.done, "tokens": report.tokens - report.earlier_tokens}

    def is_done(self, element: int) -> bool:
        """Returns whether there is a part of the shard."""
        return self._part(element).path.exists()

    def _part(self, element: int) -> Part:
        return part_of(self.job["target"], Shard(element, self.count))


@dataclasses.dataclass
class _Answerer:
    """A model that answers one shard at a time, whatever the threads of its worker."""

    translator: Any
    lock: threading.Lock
