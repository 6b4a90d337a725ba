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

from tests.faults import clocks, disks, kills, stores
from tests.faults.bench import Bench
from tests.faults.jobs import Job, write_raw
from tests.faults.report import HEADER, Row, write_json

JOBS = ("generation", "shards", "array", "beam", "training", "decoding", "sharding", "merging", *stores.NAMES)
TIMES = 30

Injection = Callable[[Bench], str | None]
"""Injects a fault. Returns an error text, "" if the fault was survived, None without proof that it happened."""

NEED_A_MOUNT: dict[str, Injection] = {"full disk": disks.full, "read-only folder": disks.read_only}


def faults(job: str) -> dict[str, Injection]:
    """Returns the faults that can be injected into a job, by name."""
    if job in stores.NAMES:
        return {"SIGKILL": functools.partial(kills.killed, name="SIGKILL"), **stores.injections(job)}
    found: dict[str, Injection] = {name: functools.partial(kills.killed, name=name) for name in kills.SIGNALS}
    found |= {"a second process": kills.second, "no permission": disks.forbidden, "a clock that jumps": clocks.jumping}
    found |= {"a file where a folder should be": disks.occupied}
    return found | {name: inject if disks.can_mount() else _unable for name, inject in NEED_A_MOUNT.items()}


def main(argv: list[str] | None = None) -> int:
    """Runs the harness; returns its exit status."""
    flags = _flags(argv)
    folder = Path(tempfile.mkdtemp(prefix="t2t-faults-"))
    materials, rows = folder / "materials", []
    write_raw(materials)
    print(HEADER, flush=True)
    for name in JOBS:
        job = stores.StoredJob(name, materials, _server()) if name in stores.NAMES else Job(name, materials)
        possible = {
            one: inject for one, inject in faults(name).items() if one in kills.SIGNALS or not job.is_only_killed
        }
        chosen = {f"{name}, {fault}": inject for fault, inject in possible.items()}
        chosen = {fault: inject for fault, inject in chosen.items() if _wanted(fault, flags.only, flags.skip)}
        if not chosen and not _needed_later(name, flags.only, flags.skip):
            continue
        bench = Bench(job, folder, flags.seed)
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


@functools.cache
def _server() -> stores.Server:
    """Returns the object store; it is started once and lives as long as this process."""
    return stores.Server()


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


def _unable(bench: Bench) -> None:
    """Replaces a fault that this machine does not allow; its row fails unless it is excluded by --skip."""


def _row(bench: Bench, fault: str, inject: Injection, times: int) -> Row:
    row = Row(fault, note="mounting is not allowed here" if inject is _unable else "", wanted=times)
    for _ in range(9 * times):
        began = time.monotonic()
        if row.injected < times and (wrong := inject(bench)) is not None:
            row.add(wrong, time.monotonic() - began)
    return row


def _wanted(fault: str, only: list[str], skip: list[str]) -> bool:
    return (not only or any(part in fault for part in only)) and not any(part in fault for part in skip)


def _needed_later(job: str, only: list[str], skip: list[str]) -> bool:
    """Returns whether a later job is selected: it may need the results of this one."""
    later = JOBS[JOBS.index(job) + 1 :]
    return any(_wanted(f"{name}, {fault}", only, skip) for name in later for fault in faults(name))


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
