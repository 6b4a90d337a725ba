"""The peers' environments: one virtual environment each, of pinned packages, made the first time it is asked for.

They lie in a folder outside the checkout and need nothing of the project; each has a folder name with a digest of its
pins, so that changed pins make a new one.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

READY = "ready.json"
"""Written last into an environment that is complete."""

MOST_SECONDS = 3600
"""Longest time that installing one set of packages may take."""


class UnavailableError(Exception):
    """A peer that cannot run here, with the reason."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """What a peer runs in."""

    name: str
    pythons: tuple[str, ...]
    """Versions that will do, the best first, e.g. `("3.11", "3.12")`."""
    packages: tuple[tuple[str, ...], ...]
    """Arguments of one `pip install` after the other."""

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of what it is made of."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()[:8]

    def folder(self, home: Path) -> Path:
        """Returns where it lies under the folder of all."""
        return home / "environments" / f"{self.name}-{self.digest}"


def interpreter_of(environment: Environment, home: Path) -> Path:
    """Returns the interpreter of an environment, which is made first where it is not there yet.

    Raises:
        UnavailableError: no interpreter of its versions, or its packages cannot be installed.
    """
    folder = environment.folder(home)
    python = folder / "bin" / "python"
    with _lock(folder):
        if (folder / READY).is_file():
            return python
        print(f"making the environment of {environment.name} in {folder}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([str(find_python(environment.pythons)), "-m", "venv", str(folder)], environment.name)
        for arguments in environment.packages:
            _run([str(python), "-m", "pip", "install", "--quiet", *arguments], environment.name)
        (folder / READY).write_text(json.dumps(dataclasses.asdict(environment), indent=1))
    return python


def find_python(versions: tuple[str, ...]) -> Path:
    """Returns an interpreter of one of the versions, of PATH or of pyenv.

    Raises:
        UnavailableError: there is none.
    """
    for version in versions:
        for candidate in _candidates(version):
            if _is_version(candidate, version):
                return candidate
    raise UnavailableError(f"no Python {' or '.join(versions)} on PATH or in pyenv's folder; install one")


def _candidates(version: str) -> Iterator[Path]:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)


def _is_version(python: Path, version: str) -> bool:
    """Whether it runs (pyenv has names on PATH for versions that are not active), and can make environments."""
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    found = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return found.returncode == 0 and found.stdout.strip() == version


def _run(command: list[str], name: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"installing {name} took more than {MOST_SECONDS} s") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-1:]
        raise UnavailableError(f"installing {name} failed: {' '.join(said)[:300] or f'status {done.returncode}'}")


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keeps two commands from making the same environment at a time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
