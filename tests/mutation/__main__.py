"""`python -m tests.mutation`: breaks the code in one place at a time and runs the tests that should notice.

Prints what became of each break. The exit status is 1 where no test notices one, or one no longer applies.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.mutation.mutation import Mutation
from tests.mutation.report import HEADER, Result, summary, write_json
from tests.mutation.table import MUTATIONS
from tests.mutation.trial import copy_checkout, results


def main(argv: list[str] | None = None) -> int:
    """Runs the harness; returns its exit status."""
    flags = _flags(argv)
    found: list[Result] = []
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory(prefix="t2t-mutation-") as folder:
        copy_checkout(Path(folder))
        for result in results(Path(folder), _chosen(flags.only), flags.timeout):
            found.append(result)
            print(result, flush=True)
            if flags.json:
                write_json(found, flags.json)
    print(summary(found))
    return 0 if found and all(result.is_caught for result in found) else 1


def _chosen(only: list[str]) -> list[Mutation]:
    return [m for m in MUTATIONS if not only or any(part in f"{m.package}: {m.name}" for part in only)]


def _flags(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="parts of names or packages: 'mask', t2t/serving")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that the tests of one break may take")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
