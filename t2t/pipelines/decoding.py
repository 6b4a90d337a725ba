"""Decoding, scoring and aligning files with Apache Beam: each worker loads the model once and processes shards."""

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t.checkpoints.averaging import count_of_best
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.inference.engine import EngineChoice
from t2t.inference.files.decoding import Job, decode_file
from t2t.inference.files.report import Report
from t2t.inference.files.scoring import align_file, score_file
from t2t.inference.files.shards import Shard, division_of, part_of, source_index
from t2t.inference.files.windows import FileJob, check_job
from t2t.pipelines.launch import Runner, run_task
from t2t.pipelines.pipeline import Failures, PipelineTask
from t2t.runs import loading

MOST_SHARDS = 1000
"""Maximum number of shards of a file that is not divided yet, enough for any number of workers."""

_MODES: Mapping[str, tuple[Callable[..., Report], type[FileJob]]] = {
    "decode_from_file": (decode_file, Job), "score_file": (score_file, FileJob), "align_file": (align_file, FileJob),
}  # fmt: skip
"""Flag of the decoder -> function and job class that carry it out."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerShards(PipelineTask):
    """Decodes, scores or aligns the shards of a file, and writes each to its part of the output."""

    mode: str
    """`decode_from_file`, `score_file` or `align_file`."""
    job: Mapping[str, Any]
    """Fields of the job without its shard."""
    runs: tuple[tuple[str, str], ...]
    """Folder and checkpoint of each run."""
    average: str
    """See `t2t.runs.loading.load_runs`."""
    engine: EngineChoice
    loading: Mapping[str, Any]
    """Other arguments of `t2t.runs.loading.load_runs`."""
    dictionary: Mapping[str, str]
    """See `LoadedRun.with_dictionary`."""
    languages: tuple[str, str]
    """See `LoadedRun.with_languages`."""

    def open(self) -> "_Model":
        """Loads the model; raises as `load_runs`."""
        loaded = loading.load_runs(self.runs, self.average, self.engine, **self.loading)
        loaded = loaded.with_dictionary(self.dictionary).with_languages(*self.languages)
        return _Model(loaded.translator(), threading.Lock())

    def run(self, opened: "_Model", element: int) -> dict[str, int]:
        """Processes a shard, unless its part exists."""
        answer, job_class = _MODES[self.mode]
        job = job_class(**self.job, shard=Shard(element, self.count))
        with opened.lock:
            report = answer(opened.translator, job)
        return {f"lines {report.verb}": report.done, "tokens": report.tokens - report.earlier_tokens}

    def is_done(self, element: int) -> bool:
        """Returns whether the part of the shard exists."""
        return part_of(self.job["target"], Shard(element, self.count)).path.exists()


@dataclasses.dataclass(frozen=True)
class _Model:
    """A model that processes one shard at a time, however many threads a worker has."""

    translator: Any
    lock: threading.Lock


def answer_file(
    mode: str,
    job: Mapping[str, Any],
    runs: Sequence[tuple[RunDir, str]],
    options: str,
    *,
    average: str,
    engine: EngineChoice,
    loading: Mapping[str, Any],
    dictionary: Mapping[str, str],
    languages: tuple[str, str] = ("", ""),
    most_shards: int = MOST_SHARDS,
    runner: Runner = run_task,
) -> None:
    """Decodes, scores or aligns all shards of a file, and writes each to its part; existing parts are kept.

    Args:
        mode: see `AnswerShards`.
        job: see `AnswerShards`.
        runs: (run, name of its checkpoint). Names are resolved now, so that all workers use the same checkpoint.
        options: of Apache Beam, checked.
        average: see `AnswerShards`.
        engine: see `AnswerShards`.
        loading: see `AnswerShards`.
        dictionary: see `AnswerShards`.
        languages: see `AnswerShards`.
        most_shards: maximum number of shards of a file that is not divided yet.
        runner: carries out the task, see `run_task`.

    Raises:
        UserError: no such checkpoint, or a mean such as `best:5`, which is not saved; or the first error of a shard.
        MachineError: the first error of a shard; or a worker died, or the pipeline failed otherwise.
    """
    check_job(FileJob(source=job["source"], target=job["target"], window=job["window"], shard=Shard(0, 1)))
    paths = {name: _absolute(job[name]) for name in ("source", "target", "prefixes", "constraints") if job.get(name)}
    usr_dir = loading.get("t2t_usr_dir")
    for _, checkpoint in runs:
        if count_of_best(checkpoint) is not None:
            raise UserError(
                f"--checkpoint={checkpoint} in a pipeline: workers read one checkpoint",
                f"save the mean with t2t-avg-all --checkpoints={checkpoint} and decode with --checkpoint=averaged",
            )
    found = [(run.path, CheckpointStore(run.checkpoints_folder).find(checkpoint)) for run, checkpoint in runs]
    task = AnswerShards(
        mode=mode,
        job={**job, **paths},
        failures=Failures(Path(f"{paths['target']}.failures")),
        count=_count_shards(paths["source"], paths["target"], job["window"], most_shards),
        runs=tuple((_absolute(folder), _absolute(checkpoint)) for folder, checkpoint in found),
        average=average,
        engine=engine,
        loading={**loading, "t2t_usr_dir": _absolute(usr_dir) if usr_dir else None},
        dictionary=dictionary,
        languages=languages,
    )
    runner(task, options, Path(paths["target"]).name)


def _count_shards(source: str, target: str, window: int, most: int) -> int:
    """Returns the number of shards of a file: that of its existing parts, else one that depends only on its lines.

    So parts are kept that were made with any number of workers, or by an array job.
    """
    windows = -(-source_index(source, target).lines // window)
    return division_of(target) or max(1, min(windows, most))


def _absolute(path: str | Path) -> str:
    return str(local_path(path).absolute())
