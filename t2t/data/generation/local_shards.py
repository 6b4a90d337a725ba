"""Makes shards on this machine: one per process or, if there are fewer shards than processes, one by one on all."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from t2t.data.generation.digests import digest_shard
from t2t.data.generation.duplicates import missing_digests
from t2t.data.generation.plan import GenerationPlan
from t2t.data.generation.shard_job import ShardResult, finished_shard, generate_shard, read_same_plan
from t2t.data.generation.tally import ENOUGH_TO_JUDGE, SampleCounts, check_fit
from t2t.data.generation.worker_pool import WorkerPool
from t2t.problems.base import Problem
from t2t.specs.constants import TRAIN


def make_shards(
    plan: GenerationPlan,
    problem: Problem,
    split: str,
    shards: Sequence[int],
    folder: Path,
    tmp_dir: Path,
    pool: WorkerPool,
    progress: Callable[[str, int], None],
) -> list[ShardResult]:
    """Makes those of some shards of a split that are not finished; returns the records of all, in order.

    Args:
        plan: of the generation.
        problem: what is generated.
        split: one of the plan's.
        shards: their numbers.
        folder: in which data is generated.
        tmp_dir: folder of raw files.
        pool: worker processes; their number does not affect the result.
        progress: called with the split and the number of its samples read.

    Raises:
        UserError: see `generate_shard`; or most training examples of the first shards are unfit.
        MachineError: a process died, or as `generate_shard`.
    """
    results = {shard: result for shard in shards if (result := finished_shard(plan, folder, split, shard))}
    is_judged = split == TRAIN and len(shards) == plan.shards[split]
    beginnings = _Beginnings(problem, shards[:-1] if is_judged else [])
    beginnings.check(results)
    missing = [shard for shard in shards if shard not in results]
    done = sum(result.counts.read for result in results.values())
    if pool.processes == 1 or len(missing) < pool.processes:
        made: Iterator[ShardResult] = (
            generate_shard(
                plan, problem, split, shard, folder, tmp_dir,
                encode=pool.encode, progress=lambda read: progress(split, done + read),
            )
            for shard in missing
        )  # fmt: skip
    else:
        before = done
        calls = [(plan.fingerprint, split, shard, folder, tmp_dir) for shard in missing]
        made = pool.run_each(_generate_shard, calls, lambda read: progress(split, before + read))
    for result in made:
        results[result.shard] = result
        done += result.counts.read
        beginnings.check(results)
    return [results[shard] for shard in shards]


def digest_shards(
    plan: GenerationPlan,
    problem: Problem,
    shards: Sequence[int],
    folder: Path,
    tmp_dir: Path,
    pool: WorkerPool,
    progress: Callable[[str, int], None],
) -> None:
    """Writes those digests of some shards of the training split that do not exist; see `make_shards`."""
    missing = [shard for shard in missing_digests(plan, folder) if shard in shards]
    done = 0

    def tell(read: int) -> None:
        progress("duplicates", done + read)

    if pool.processes == 1 or len(missing) < pool.processes:
        for shard in missing:
            done += digest_shard(plan, problem, shard, folder, tmp_dir, judge=pool.judge, progress=tell).samples
    else:
        list(pool.run_each(_digest_shard, [(plan.fingerprint, shard, folder, tmp_dir) for shard in missing], tell))


class _Beginnings:
    """Judges the first shard, the first two and so on, whichever are finished first: all shards may take hours."""

    def __init__(self, problem: Problem, shards: Sequence[int]):
        self._problem, self._following, self._counts = problem, deque(shards), SampleCounts()

    def check(self, results: dict[int, ShardResult]) -> None:
        """Raises UserError early if most examples of the first shards are unfit."""
        while self._following and self._following[0] in results:
            self._counts += results[self._following.popleft()].counts
            if self._counts.judged >= ENOUGH_TO_JUDGE:
                check_fit(self._problem, self._counts, "so far", "; if only their beginning is so, shuffle them")


def _generate_shard(
    problem: Problem,
    fingerprint: str,
    split: str,
    shard: int,
    folder: Path,
    tmp_dir: Path,
    progress: Callable[[int], None],
) -> ShardResult:
    plan = read_same_plan(folder, fingerprint)  # which, sent with each call, could cost more than its shard
    return generate_shard(plan, problem, split, shard, folder, tmp_dir, progress=progress)


def _digest_shard(
    problem: Problem, fingerprint: str, shard: int, folder: Path, tmp_dir: Path, progress: Callable[[int], None]
) -> None:
    digest_shard(read_same_plan(folder, fingerprint), problem, shard, folder, tmp_dir, progress=progress)
