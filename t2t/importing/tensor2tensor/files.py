"""Files of a Tensor2Tensor run: `hparams.json`, `flags.txt`, and the TensorFlow checkpoints `model.ckpt-<step>`."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors

_CHECKPOINT = re.compile(r"model\.ckpt-(\d+)\.index")


def read_hparams(folder: Path) -> dict[str, Any]:
    """Returns the content of `hparams.json`; raises UserError if it is missing or no JSON object."""
    path = folder / "hparams.json"
    if not path.is_file():
        raise UserError(f"--model_dir={folder}: no hparams.json there; name the output_dir of a Tensor2Tensor run")
    with os_errors_as_machine_errors(f"cannot read {path}"):
        content = path.read_bytes()
    try:
        values = json.loads(content)
    except ValueError as error:
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


def find_checkpoint(folder: Path, step: int | None = None) -> Path:
    """Returns the prefix of a checkpoint's files, `<folder>/model.ckpt-<step>`, by default of the latest.

    Raises:
        UserError: there is none, or none of that step.
    """
    with os_errors_as_machine_errors(f"cannot read {folder}"):
        steps = sorted(int(found[1]) for path in folder.iterdir() if (found := _CHECKPOINT.fullmatch(path.name)))
    if not steps:
        raise UserError(f"--model_dir={folder}: no checkpoint model.ckpt-<step>.index there; copy all files of the run")
    if step is not None and step not in steps:
        raise UserError(f"--step={step}: {folder} has checkpoints of steps {', '.join(map(str, steps))}; ask for one")
    return folder / f"model.ckpt-{steps[-1] if step is None else step}"


def read_variables(prefix: Path) -> dict[str, np.ndarray]:
    """Returns the variables of a checkpoint by name; raises UserError if a file is missing or damaged."""
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        return {name: np.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}
    except Exception as error:  # TensorFlow's reader raises many kinds for damage
        raise UserError(
            f"checkpoint {prefix}: a file of it is missing or damaged ({one_line(error)}); copy all of "
            f"{prefix.name}.index and {prefix.name}.data-* again"
        ) from error
