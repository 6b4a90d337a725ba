"""Reads a run of Tensor2Tensor: its settings (`hparams.json`, `flags.txt`), its weights and the state of Adam."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.importing.formats import ImportRequest
from t2t.importing.run import ForeignRun
from t2t.importing.tensor2tensor.hparams import translate
from t2t.importing.tensor2tensor.names import network_name
from t2t.importing.tensor2tensor.weights import convert
from t2t.importing.tensorflow_checkpoint import find_checkpoint, read_variables
from t2t.problems.base import Problem
from t2t.problems.vocabularies import text_names
from t2t.runs.names import get_text_problem
from t2t.text.encoder import TextEncoder
from t2t.text.vocabulary_files import read_vocabulary

_TARGET_SPACES = (
    (r"ende.*char", 7), (r"ende.*bpe", 9), (r"ende.*_rev|enfr.*_rev", 3), (r"ende", 8),
    (r"enfr.*char", 5), (r"enfr", 6), (r"parsing.*char", 14), (r"parsing", 15), (r"enzh", 16),
)  # fmt: skip
"""Patterns of Tensor2Tensor's problem names, with their row of its target space table; 0 is the generic one."""


def read(request: ImportRequest) -> ForeignRun:
    """Reads a Tensor2Tensor folder and its vocabulary.

    The defaults are the problem in `flags.txt`, the latest step, and the problem's target space.

    Raises:
        UserError: a file is missing or damaged, the network differs from the Transformer here, or a variable is
            unused.
    """
    assert request.vocab_file is not None, "the format needs it"
    values = read_hparams(request.model_dir)
    problem = _problem(request, read_vocabulary(request.vocab_file))
    space = request.target_space_id
    if space is None:
        space = next((number for pattern, number in _TARGET_SPACES if re.search(pattern, problem.name)), 0)
    variables = read_variables(find_checkpoint(request.model_dir, request.step, "model.ckpt"))
    hparams, warnings = translate(values, attention_bias=_has_attention_bias(variables))
    hparams.target_space_embedding = any(name.endswith("target_space_embedding/kernel") for name in variables)
    converted = convert(variables, hparams.key_channels, hparams.value_channels, space)
    return ForeignRun(
        problem=problem,
        hparams=hparams,
        weights=converted.weights,
        tensors=converted.variables,
        unused=dict.fromkeys(converted.unused, "counters and slots"),
        step=converted.step,
        moments=converted.moments,
        origin=f"the checkpoint in {request.model_dir}",
        settings=f"its hparams.json and {request.vocab_file}",
        notes=(f"target space {space}",),
        warnings=warnings,
    )


def _problem(request: ImportRequest, encoder: TextEncoder) -> Problem:
    """Returns the problem with the vocabulary for all text features."""
    flags = read_flags(request.model_dir)
    name = request.problem or flags.get("problem") or flags.get("problems")
    if not name:
        raise UserError(
            f"--problem: not given, and {request.model_dir} has no flags.txt that names it; name the problem here "
            f"that the run was trained on"
        )
    problem = get_text_problem(name)
    return problem.with_encoders(dict.fromkeys(text_names(problem.stored), encoder))


def _has_attention_bias(variables: Mapping[str, np.ndarray]) -> bool:
    names = filter(None, map(network_name, variables))
    return any(re.search(r"attention/.*(?:_transform|/[qkv])(?:_single)?/bias$", name) for name in names)


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
