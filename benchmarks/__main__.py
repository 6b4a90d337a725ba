"""`python -m benchmarks NAME [flags]`: runs one benchmark; without a name, lists them."""

import importlib
import sys
from pathlib import Path

from t2t.errors import T2TError, UnknownNameError, did_you_mean, one_line


def names() -> list[str]:
    """Returns the names of all benchmarks: modules whose source defines `main(argv)`. Imports none of them."""
    folder = Path(__file__).parent
    sources = {path.stem: path for path in folder.glob("*.py") if not path.stem.startswith("_")}
    sources |= {path.parent.name: path for path in folder.glob("*/__init__.py")}
    return sorted(name for name, path in sources.items() if "\ndef main(argv" in path.read_text())


def main(argv: list[str]) -> int:
    """Runs the benchmark `argv[0]` with the flags that follow, or lists all; returns the exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        for name in names():
            print(f"{name:16}  {importlib.import_module(f'benchmarks.{name}').__doc__.splitlines()[0]}")
        return 0
    name = argv[0]
    try:
        if name not in names():
            known = ", ".join(names())
            raise UnknownNameError(f"benchmark {name!r} does not exist; {did_you_mean(name, names())}there are {known}")
        return importlib.import_module(f"benchmarks.{name}").main(argv[1:])
    except T2TError as error:
        print(f"benchmarks: error: {one_line(error)}", file=sys.stderr)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
