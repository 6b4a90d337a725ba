"""Checks of bad values on command lines and in requests, each run in an empty folder: see `text_checks`."""

import contextlib
import importlib
import io
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from t2t.checkpoints.store import CheckpointStore
from t2t.errors import T2TError, UserError
from t2t.runs.config import RunConfig
from t2t.runs.names import get_hparams, problems_of
from t2t.serving.requests import ChatRequest, CompletionRequest, PredictRequest, TranslationRequest, decode
from tests.nasty_lines import nasty_lines

ODD_VALUES = [
    str(2**63), "1" + "0" * 400, "9" * 5000, "nan", "1e999", "-1", "0", "1_0", "\u0663", "x" * 300, "a/" * 3000,
    "~nobody/x", "[1]", "[", "a[9]=1", "a" * 20000, "1" + "," * 9999, "_rev", "a-b", "..", "/dev/null/x",
]  # fmt: skip


def values():
    """A strategy for values on command lines; without NULs, which no process can be passed."""
    drawn = nasty_lines().map(lambda line: os.fsdecode(line.replace(b"\0", b"")))
    return st.one_of(drawn, st.sampled_from(ODD_VALUES))


COMMANDS = {
    "datagen": ["--data_dir=data"],
    "trainer": ["--data_dir=data", "--output_dir=none", "--model=transformer"],
    **{name: ["--output_dir=none"] for name in ("decoder", "eval", "exporter", "distill", "avg_all", "shortlist")},
    "importer": ["--t2t_dir=none"],
    "vocab": ["--vocab_file=none"],
    "bleu": ["--translation=none", "--reference=none"],
    "evalb": ["--gold=none", "--test=none"],
    "aer": ["--gold=none", "--test=none"],
    "tune": ["--study=none", "--data_dir=data", "--model=transformer"],
    "runs": ["--folder=none"],
}
"""Modules of commands, and flags for files that none of them finds."""


def read_flags(case: tuple[str, list[tuple[int, str]]]) -> None:
    """Any value of any flag gives exit status 0, 1 or 2, and one error line with 2; no command finds its files."""
    name, drawn = case
    module = importlib.import_module(f"t2t.cli.{name}")
    known = [flag for flag in module.build_flags() if len(flag) > 1]
    given = {known[number % len(known)]: value for number, value in drawn}
    kept = [flag for flag in COMMANDS[name] if flag[2:].partition("=")[0] not in given]
    run_command(module, *(f"--{flag}={value}" for flag, value in given.items()), *kept)


def run_command(module: Any, *arguments: str) -> int:
    """Runs a command without standard input; checks its error lines and returns its status."""
    outputs = [io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace")]
    with (
        contextlib.redirect_stdout(outputs[0]),
        contextlib.redirect_stderr(outputs[1]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())),
    ):
        status = module.main(["t2t-command", *arguments])
    outputs[1].flush()
    errors = outputs[1].buffer.getvalue().decode().split("\n")
    assert status in (0, 1, 2)
    assert status != 2 or sum(line.startswith("t2t-command: error: ") for line in errors) == 1
    return status


def override_hparams(text: str) -> None:
    """Any text for --hparams is parsed or refused."""
    with contextlib.suppress(UserError):
        get_hparams("transformer_tiny").override(text).freeze()


def look_names_up(case: tuple[str, dict[str, str], str]) -> None:
    """Any names and options are found or refused."""
    problem, options, checkpoint = case
    with contextlib.suppress(UserError):
        problems_of(RunConfig(problem=problem, problem_options=options))
    with contextlib.suppress(T2TError, OSError):  # OSError: no file may have the name; commands report it in one line
        CheckpointStore(Path("checkpoints")).find(checkpoint)


def read_requests(body: bytes) -> None:
    """Any body of a request to the server gives texts that can be encoded, or is refused."""
    for form in (PredictRequest, TranslationRequest, CompletionRequest, ChatRequest):
        with contextlib.suppress(UserError):
            assert all(text.encode() is not None for text in decode(body, form).query.texts)
