"""File systems that refuse writes: full, read-only, without permission, or with another file or folder in the way."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.faults.bench import Bench, complaint
from tests.faults.jobs import differences, made_in

MACHINE, USER = 1, 2
"""Exit statuses of errors of the machine and of the user."""

ROOM = "size=256m"
_PAGE = 4096
_PART = "decoded.shard-00001-of-00003"
_IN_THE_WAY = {
    "generation": ("data", "data/text2text_files", "data/.text2text_files.partial", "data/.text2text_files.lock/"),
    "training": (
        "run", "run/checkpoints", "run/events", "run/vocab", "run/run.json/", "run/lock/", "run/metrics.jsonl/",
        "run/checkpoints/latest.json/", "run/dev_outputs.jsonl/",
    ),
    "decoding": ("out/decoded/", "out/decoded.partial/", "out/decoded.partial.json/"),
    "sharding": (
        f"out/{_PART}/", f"out/{_PART}.partial/", f"out/{_PART}.partial.json/", f"out/{_PART}.json/",
        "out/decoded.lines.json/", "out/.decoded.lines.json.lock/",
    ),
}  # fmt: skip
"""Paths of obstacles: a file in place of a folder, or, with a trailing /, a folder in place of a file."""


def full(bench: Bench) -> str | None:
    """Runs the job on a file system that is too small, then enlarges it and resumes."""
    out = bench.folder()
    size = bench.rng.randint(_PAGE, max(_PAGE, bench.bytes))
    with bench.mounted("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(out)):
        process = bench.start(out)
        status = process.wait()
        if status == 0 and not differences(bench.wanted, made_in(out)):
            return None
        if wrong := complaint(process, status, MACHINE, r": error: .*No space left on device.*; free some space"):
            return wrong
        bench.remount(ROOM, out)
        return bench.go_on(out, keep=True)


def read_only(bench: Bench) -> str | None:
    """Makes the file system of an interrupted job read-only, then writable again."""

    @contextlib.contextmanager
    def locked(out: Path) -> Iterator[None]:
        with bench.mounted("--bind", str(out), str(out)):
            bench.remount("bind,ro", out)
            yield

    return _refused(bench, locked, "Read-only file system|Permission denied")


def forbidden(bench: Bench) -> str | None:
    """Removes write permission from the folder of an interrupted job, then restores it."""

    @contextlib.contextmanager
    def locked(out: Path) -> Iterator[None]:
        for path in [out, *out.rglob("*")]:
            path.chmod(0o500 if path.is_dir() else 0o400)
        try:
            yield
        finally:
            for path in [out, *out.rglob("*")]:
                path.chmod(0o700 if path.is_dir() else 0o600)

    return _refused(bench, locked, "Permission denied")


def occupied(bench: Bench) -> str | None:
    """Puts a file in place of a folder, or a folder in place of a file, then removes it."""
    out, places = bench.folder(), _IN_THE_WAY[bench.job.name]
    place = places[next(bench.turns) % len(places)]
    obstacle = out / place.rstrip("/")
    obstacle.parent.mkdir(parents=True, exist_ok=True)
    obstacle.mkdir() if place.endswith("/") else obstacle.write_text("")
    was_folder = obstacle.is_dir()
    process = bench.start(out)
    status = process.wait()
    if status not in (MACHINE, USER):
        return f"{place} in the way: {complaint(process, status, USER, '')}"
    # Files are written under a temporary name, which contains the final one.
    named = rf"{re.escape(str(obstacle.parent))}/\S*{re.escape(obstacle.name)}"
    if wrong := complaint(process, status, status, rf": error: .*{named}.*; "):
        return f"{place} in the way: {wrong}"
    if obstacle.is_dir() != was_folder:
        return f"{place} in the way: it was replaced"
    obstacle.rmdir() if obstacle.is_dir() else obstacle.unlink()
    return bench.go_on(out)


def can_mount(bench: Bench) -> bool:
    """Returns whether this process may mount file systems."""
    folder = bench.folder()
    try:
        with bench.mounted("-t", "tmpfs", "-o", ROOM, "tmpfs", str(folder)):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        folder.rmdir()


def _refused(bench: Bench, locked, text: str) -> str | None:
    """Kills a job half-way, runs it while it may not write, and resumes it when it may.

    The error line proves that the fault was injected; returns None if the job succeeds all the same.
    """
    out, process = bench.start_and_wait()
    process.end()
    before = made_in(out)
    with locked(out):
        process = bench.start(out, obeys_permissions=True)
        status = process.wait()
        if status == 0 and not differences(bench.wanted, made_in(out)):
            return None  # no write was refused: the job had finished before, or the folder was writable
        if wrong := complaint(process, status, MACHINE, rf": error: .*({text})") or differences(before, made_in(out)):
            return f"{out}: {wrong}"
    return bench.go_on(out)
