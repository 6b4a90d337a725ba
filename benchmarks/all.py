"""Runs all benchmarks of speed and memory in sequence and writes their tables to one page.

    python -m benchmarks all --data=DIR

writes HOME/results/page.md and page.json. A second run resumes: it skips benchmarks that finished with the same flags
on the same machine, and repeats those that failed or were disturbed by other processes. The page omits figures of
disturbed turns.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.flags import chosen, peers_home
from benchmarks.harness.machine import describe_machine, machine
from benchmarks.harness.parts import PARTS, Part
from benchmarks.harness.processes import ROOT
from benchmarks.harness.records import Record, read_record, write_record
from benchmarks.harness.rows import table
from t2t.errors import UserError
from t2t.files.atomic import write_atomically


def main(argv: list[str], known: Sequence[Part] = PARTS, python: str = sys.executable) -> int:
    """Runs those of the known benchmarks that are not finished; returns 1 if one failed, else 0."""
    arguments = _parser(known).parse_args(argv)
    if arguments.data is not None and not arguments.data.is_dir():
        raise UserError(f"--data={arguments.data}: there is no such folder; name the folder of Multi30k's files")
    parts = [part for part in _chosen(arguments.only, known) if part.quick is not None or not arguments.quick]
    folder = arguments.home.expanduser().absolute() / "results"
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for part in parts:
        records.append(_finished(part, arguments, folder) or _run(part, arguments, folder, python))
        _write_page(records, folder)  # after each, so that an interruption loses nothing
    print(f"{folder / 'page.md'}: {sum(one.is_finished for one in records)} of {len(records)} benchmarks finished")
    for one in records:
        if not one.is_finished:
            print(f"  {one.name}: {one.complaint}; the same command runs it again")
    return int(any(one.failure for one in records))


def _parser(known: Sequence[Part]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks all", description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = ", ".join(part.name for part in known)
    add("--data", type=Path, help="folder of Multi30k's files; default: synthetic text")
    add("--only", default="", help=f"some of {names}; default: all")
    add("--home", type=Path, default=peers_home(), help="folder of the peers' environments, the data and the results")
    add("--turns", type=int, help="runs of each side; default: set by each benchmark")
    add("--again", type=int, default=2, help="maximum repetitions of a turn that other processes disturbed")
    add("--no_peers", action="store_true", help="measure only this project")
    add(
        "--quick", action="store_true", help="tiny models and little text: shows that everything runs, measures nothing"
    )
    add("--fresh", action="store_true", help="also repeat finished benchmarks")
    return parser


def _chosen(text: str, known: Sequence[Part]) -> list[Part]:
    """Returns the parts named in a comma-separated list, or all parts if it is empty."""
    parts = {part.name: part for part in known}
    return [parts[name] for name in chosen(text, parts, "--only") or parts]


def _finished(part: Part, arguments: argparse.Namespace, folder: Path) -> Record | None:
    """Returns the complete record of a run with the same flags, processor, cores and versions, or None."""
    if arguments.fresh:
        return None
    record, here = read_record(folder / f"{part.name}.json"), machine()
    if record is None or not record.is_finished or record.flags != part.flags(arguments):
        return None
    return record if all(record.machine.get(key) == here[key] for key in ("processor", "cores", "versions")) else None


def _run(part: Part, arguments: argparse.Namespace, folder: Path, python: str) -> Record:
    """Runs a part in a separate process; writes its record to the folder and returns it."""
    flags, rows = part.flags(arguments), folder / f"{part.name}.rows.json"
    print(f"== {part.name}: python -m benchmarks {part.benchmark} {' '.join(flags)}", file=sys.stderr, flush=True)
    rows.unlink(missing_ok=True)
    record = Record.start(part.name, part.benchmark, flags)
    with open(folder / f"{part.name}.log", "w") as log:
        process = subprocess.Popen(
            [python, "-m", "benchmarks", part.benchmark, *flags, f"--json={rows}"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        printed = process.communicate()[0]
    said = (folder / f"{part.name}.log").read_text().strip().splitlines() or ["it said nothing"]
    failure = f"ended with status {process.returncode}: {said[-1]}" if process.returncode else ""
    found = json.loads(rows.read_text()) if rows.is_file() and not failure else []
    record = record.ended(found, printed, failure, has_rows=part.has_rows)
    rows.unlink(missing_ok=True)
    write_record(record, folder / f"{part.name}.json")
    return record


def _write_page(records: list[Record], folder: Path) -> None:
    best = [row for record in records for row in record.best_rows()]
    summary = ["## The best variants of each program", "", *table(best), ""] if best else []
    sections = [line for record in records for line in record.section()]
    lines = ["# Benchmarks", "", describe_machine(), "", *summary, *sections]
    write_atomically(folder / "page.md", ("\n".join(lines).rstrip() + "\n").encode())
    found = {"machine": machine(), "benchmarks": [record.to_dict() for record in records]}
    write_atomically(folder / "page.json", (json.dumps(found, indent=1) + "\n").encode())
