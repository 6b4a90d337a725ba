"""Commands as processes that start at once: forked from a process that has imported everything and run nothing.

A real start imports TensorFlow, which takes longer than most of what tests let commands do. A warm start differs from
it only in what is imported already: it is a process of its own, with the arguments, environment, folder, limits and
open files of whoever started it, it receives its signals, and ends with the status that it would have had.

    client.py   stands in for `python` and for each command; asks a server for a process and stays for its end
    server.py   imports, then forks a process for each client
"""

import atexit
import functools
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.commands.client import IMPORT_VARIABLES, SERVER, seen_by_imports

ROOT = Path(__file__).parents[2]
COLD = {"t2t-bleu", "t2t-evalb", "t2t-aer", "t2t-datagen", "t2t-vocab", "t2t-runs", "t2t-make-tf-configs"}
"""Commands that do not import TensorFlow, and start as users start them."""


def warm(environment: Mapping[str, str] | None = None) -> tuple[Path, dict[str, str]]:
    """Returns a folder of stand-ins, `python` and all commands, and the environment in which they start warm.

    Args:
        environment: variables of the process to start; by default those of this process.
    """
    found = dict(os.environ if environment is None else environment)
    seen = seen_by_imports(found)
    return _stand_ins(), {**found, SERVER: json.dumps([_server(tuple(sorted(seen.items()))), seen])}


def python(*arguments: str) -> list[str]:
    """Returns the command line of a warm Python in the environment of this process, which gets the server's address."""
    folder, environment = warm()
    os.environ[SERVER] = environment[SERVER]
    return [str(folder / "python"), *arguments]


@functools.cache
def _stand_ins() -> Path:
    """Makes a folder with an executable for each command and for Python."""
    folder = Path(_scratch(), "bin")
    folder.mkdir()
    client = Path(__file__).parent / "client.py"
    for name in ("python", *(path.name for path in (ROOT / "bin").iterdir() if path.name not in COLD)):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -ISs {client} {name} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


@functools.cache
def _server(variables: tuple[tuple[str, str], ...]) -> str:
    """Starts a server whose imports see these variables; returns its address. It ends with this process."""
    address = str(Path(_scratch(), f"server{len(os.listdir(_scratch()))}"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(IMPORT_VARIABLES)}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.commands.server", address],
        cwd=ROOT, env={**kept, **dict(variables), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    atexit.register(server.communicate)
    assert server.stdout.read(1), "the server of commands did not start"
    return address


@functools.cache
def _scratch() -> str:
    folder = tempfile.mkdtemp(prefix="t2t-commands-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
