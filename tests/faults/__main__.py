"""`python -m tests.faults`: injects every fault and prints how many injections were survived.

Exit status 1 if a fault was not survived, or could not be injected: a fault that did not happen proves nothing.
"""

import argparse
import functools
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults import disks, kills, stores
from tests.faults.bench import Bench
from tests.faults.jobs import Job, write_raw
from tests.faults.report import HEADER, Row, write_json

JOBS = ("generation", "shards", "array", "beam", "training", "decoding", "sharding", "merging", *stores.NAMES)
TIMES = 30

Injection = Callable[[Bench], str | None]
"""Injects a fault. Returns an error text, "" if the fault was survived, None without proof that it happened."""

NEED_A_MOUNT: dict[str, Injection] = {"full disk": disks.full, "read-only folder": disks.read_only}


def faults(job: Job) -> dict[str, Injection]:
    """Returns the faults that can be injected into a job, by name."""
    if job.name in stores.NAMES:
        return {"SIGKILL": functools.partial(kills.killed, name="SIGKILL"), **stores.injections(job.name)}
    found: dict[str, Injection] = {name: functools.partial(kills.killed, name=name) for name in kills.SIGNALS}
    if job.is_only_killed:
        return found
    found |= {"a second process": kills.second, "no permission": disks.forbidden, "a clock that jumps": kills.jumping}
    return {**found, "a file where a folder should be": disks.occupied, **NEED_A_MOUNT}


def main(
    argv: list[str] | None = None,
    *,
    parent: Path | None = None,
    bench_of: Callable[[Job, Path, int], Bench] = Bench,
    faults_of: Callable[[Job], dict[str, Injection]] = faults,
) -> int:
    """Runs the harness, in a new folder; returns its exit status. Other values than the defaults are for its tests."""
    flags = _flags(argv)
    folder = Path(tempfile.mkdtemp(prefix="t2t-faults-", dir=parent))
    materials, rows = folder / "materials", []
    write_raw(materials)
    print(HEADER, flush=True)
    for name in JOBS:
        job = stores.StoredJob(name, materials) if name in stores.NAMES else Job(name, materials)
        chosen = {f"{name}, {fault}": inject for fault, inject in faults_of(job).items()}
        chosen = {fault: inject for fault, inject in chosen.items() if _wanted(fault, flags.only, flags.skip)}
        later = [Job(other, materials) for other in JOBS[JOBS.index(name) + 1 :]]  # these may need its results
        named = [f"{other.name}, {fault}" for other in later for fault in faults_of(other)]
        if not chosen and not any(_wanted(fault, flags.only, flags.skip) for fault in named):
            continue
        bench = bench_of(job, folder, flags.seed)
        bench.prepare()
        for fault, inject in chosen.items():
            _tell(rows, _row(bench, fault, inject, flags.times), flags.json)
    for row in _within(folder, flags):
        _tell(rows, row, flags.json)
    if not rows:
        print(f"not injected: no fault is called {' or '.join(flags.only)}", flush=True)
    passed = bool(rows) and all(row.passed for row in rows)
    if passed:
        shutil.rmtree(folder)
    return 0 if passed else 1


def _tell(rows: list[Row], row: Row, path: Path | None) -> None:
    rows.append(row)
    print(row, flush=True)
    if path:
        write_json(rows, path)


def _within(folder: Path, flags: argparse.Namespace) -> Iterator[Row]:
    """Yields the rows of the faults that are tested in this process: damaged files and bad text."""
    from tests.faults import damage, text  # these import TensorFlow; the other faults do not need it here

    if _wanted("damaged files", flags.only, flags.skip):
        yield from damage.rows(folder / "damaged", flags.seed)
    if _wanted("bad text", flags.only, flags.skip):
        yield from text.rows(max(1, text.CASES * flags.times // TIMES))


def _row(bench: Bench, fault: str, inject: Injection, times: int) -> Row:
    """Injects a fault; what this machine does not allow fails, unless it is excluded by --skip."""
    if inject in NEED_A_MOUNT.values() and not disks.can_mount(bench):
        return Row(fault, note="mounting is not allowed here", wanted=times)
    row = Row(fault, wanted=times)
    for _ in range(9 * times):
        began = time.monotonic()
        if row.injected < times and (wrong := inject(bench)) is not None:
            row.add(wrong, time.monotonic() - began)
    return row


def _wanted(fault: str, only: list[str], skip: list[str]) -> bool:
    return (not only or any(part in fault for part in only)) and not any(part in fault for part in skip)


def _flags(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES, help="injections of each fault into each job")
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument("--only", nargs="+", default=[], help="parts of names: training, SIGKILL, 'decoding, SIGTERM'")
    parser.add_argument("--skip", nargs="+", default=[], help="parts of names, as of what cannot be injected here")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
