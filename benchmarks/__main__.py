"""`python -m benchmarks NAME [flags]`: runs one benchmark; without a name, lists them."""

import importlib
import pkgutil
import sys

import benchmarks
from t2t.errors import T2TError, UnknownNameError, did_you_mean, one_line


def names() -> list[str]:
    """Returns the benchmarks of the folder."""
    return sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__) if not found.name.startswith("_"))


def main(argv: list[str]) -> int:
    """Runs the benchmark that `argv` names with the flags after the name; returns its exit status."""
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
