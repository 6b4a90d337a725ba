"""Recordings and images whose paths are the lines of a file that is decoded."""

from collections.abc import Sequence
from pathlib import Path

from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.paths import local_path
from t2t.files.remote.mirror import fetch


def listed_files(lines: Sequence[str], folder: Path) -> list[Path]:
    """Returns the paths that lines give, and fetches those of object stores; files may be missing.

    Args:
        lines: paths relative to the folder, or addresses of object stores.
        folder: of the file with the lines.

    Raises:
        UserError: an address is malformed, or its scheme unknown.
        MachineError: the store refuses or does not respond.
    """
    paths = [folder / (local_path(line) if "://" in line else line) for line in lines]
    with os_errors_as_machine_errors("cannot read the files that lines name"):
        fetch(*paths)
    return paths
