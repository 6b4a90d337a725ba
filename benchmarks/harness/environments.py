"""The peers' environments: virtual environments of pinned packages, created on first use.

They are in a folder outside the checkout and do not contain the project. The folder name of each has a digest of its
definition, so changed pins lead to a new environment.
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
from collections.abc import Callable, Iterator
from pathlib import Path

READY = "ready.json"
"""File that is written last; an environment with it is complete."""

MOST_SECONDS = 3600
"""Time limit for each command of the installation."""


class UnavailableError(Exception):
    """A peer cannot run here; the message is the reason."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """Definition of a peer's virtual environment."""

    name: str
    pythons: tuple[str, ...]
    """Accepted Python versions in order of preference, e.g. `("3.11", "3.12")`."""
    packages: tuple[tuple[str, ...], ...]
    """Arguments of successive `pip install` commands."""

    @property
    def digest(self) -> str:
        """The first eight hexadecimal digits of a hash of the definition."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()[:8]

    def folder(self, home: Path) -> Path:
        """Returns its folder below `home`."""
        return home / "environments" / f"{self.name}-{self.digest}"


def find_python(versions: tuple[str, ...]) -> Path:
    """Returns an interpreter of the first version that is found: this one, or one of pyenv or PATH.

    Raises:
        UnavailableError: there is none.
    """
    for version in versions:
        for candidate in _candidates(version):
            if _is_version(candidate, version):
                return candidate
    raise UnavailableError(f"no Python {' or '.join(versions)} on PATH or in pyenv's folder; install one")


def interpreter_of(environment: Environment, home: Path, find: Callable[[tuple[str, ...]], Path] = find_python) -> Path:
    """Returns the interpreter of an environment; creates the environment if it is missing or incomplete.

    Raises:
        UnavailableError: there is no Python of an accepted version, or its packages cannot be installed.
    """
    folder = environment.folder(home)
    python = folder / "bin" / "python"
    with _lock(folder):
        if (folder / READY).is_file():
            return python
        print(f"making the environment of {environment.name} in {folder}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([str(find(environment.pythons)), "-m", "venv", str(folder)], environment.name)
        for arguments in environment.packages:
            _run([str(python), "-m", "pip", "install", "--quiet", *arguments], environment.name)
        (folder / READY).write_text(json.dumps(dataclasses.asdict(environment), indent=1))
    return python


def _candidates(version: str) -> Iterator[Path]:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)


def _is_version(python: Path, version: str) -> bool:
    """Whether an interpreter runs, has the version and `venv`; pyenv's names on PATH fail for inactive versions."""
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
    """Keeps two processes from creating the same environment at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
