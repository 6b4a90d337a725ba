"""Compares the project's output with that of other programs on real files: `--data=DIR`, `--only=NAME,NAME`.

Each module of this folder has `check(data: Path) -> list[Row]`, where `data` is the folder of files. These are not
tests because the files are not part of the project.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from benchmarks.harness.flags import chosen
from t2t.errors import T2TError, UserError, one_line


class Row(TypedDict):
    """One comparison."""

    check: str
    """Name of the comparison."""
    expected: str
    """Result of the other program."""
    found: str
    """Result of this project."""
    ok: bool


def main(argv: list[str]) -> int:
    """Prints a table of all comparisons; returns 1 if any fails, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks known_answers", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of files with known answers")
    parser.add_argument("--only", default="", help=f"some of {','.join(names())}; default all")
    arguments = parser.parse_args(argv)
    if not arguments.data.is_dir():
        raise UserError(f"--data={arguments.data}: there is no such folder; name the folder of files")
    rows = list(all_rows(arguments.data, chosen(arguments.only, names(), "--only") or names()))
    print_table(rows)
    return 0 if all(row["ok"] for row in rows) else 1


def names() -> list[str]:
    """Returns the names of the modules with comparisons."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))


def all_rows(data: Path, modules: list[str]) -> Iterator[Row]:
    """Yields the comparisons of the modules; one that raises an error counts as failed."""
    for name in modules:
        try:
            yield from importlib.import_module(f"{__name__}.{name}").check(data)
        except (T2TError, OSError) as error:
            yield Row(check=name, expected="a comparison", found=one_line(error), ok=False)


def print_table(rows: list[Row]) -> None:
    """Prints a Markdown table and the number of passed comparisons; lists failed ones on standard error."""
    print("| check | expected | found | |", "|---|---|---|---|", sep="\n")
    for row in rows:
        print(f"| {row['check']} | {row['expected']} | {row['found']} | {'ok' if row['ok'] else 'FAILS'} |")
    failed = [row["check"] for row in rows if not row["ok"]]
    for check in failed:
        print(f"failed: {check}", file=sys.stderr)
    print(f"\n{len(rows) - len(failed)} of {len(rows)} known answers met")
