"""Files of a Tensor2Tensor run besides its checkpoints: `hparams.json` and `flags.txt`."""

import json
from pathlib import Path
from typing import Any

from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors


def read_hparams(folder: Path) -> dict[str, Any]:
    """Returns the content of `hparams.json`; raises UserError if it is missing or no JSON object."""
    path = folder / "hparams.json"
    if not path.is_file():
        raise UserError(f"--model_dir={folder}: no hparams.json there; name the output_dir of a Tensor2Tensor run")
    with os_errors_as_machine_errors(f"cannot read {path}"):
        content = path.read_bytes()
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is no JSON ({one_line(error)}); restore it from a copy") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} holds {type(values).__name__}, not names with values; restore it from a copy")
    return values


def read_flags(folder: Path) -> dict[str, str]:
    """Returns the flags in `flags.txt` by name; empty if there is no such file."""
    try:
        lines = (folder / "flags.txt").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return {}
    return dict(line.strip().removeprefix("--").split("=", 1) for line in lines if "=" in line)
