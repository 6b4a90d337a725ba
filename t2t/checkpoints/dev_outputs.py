"""A run's outputs for a few sentences of its dev split at each evaluation: `dev_outputs.jsonl` in its folder.

A line is an evaluation of a problem, oldest first:

    {"step": 500, "problem": "", "sources": [...], "references": [...], "outputs": [...]}

`problem` is empty if the run has only one. A line has `sources` (null if inputs are not text) and `references` only if
its sentences differ from those in the previous line of the problem. The file stays small: sentences and evaluations are
few, and texts are cut. It has no times, so that an interrupted run writes the same bytes as an uninterrupted one.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.remote.mirror import fetch

MOST_SENTENCES = 24
"""Sentences kept from an evaluation, evenly spread over the decoded ones."""
MOST_EVALUATIONS = 200
"""Evaluations kept for a problem; if there are more, every second one is removed."""
MOST_CHARACTERS = 1000
"""Longer texts are cut."""
MOST_BYTES = 64 << 20
"""Bytes of a file that are read, whoever wrote it."""


@dataclasses.dataclass(frozen=True)
class DevOutputs:
    """The outputs of one evaluation; `sources`, `references` and `outputs` are of the same sentences."""

    step: int
    problem: str
    sources: tuple[str, ...] | None
    references: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def pick(
        cls, step: int, problem: str, sources: Sequence[str] | None, references: Sequence[str], outputs: Sequence[str]
    ) -> "DevOutputs":
        """Selects the outputs of an evaluation to keep, the same sentences each time."""
        places = np.unique(np.linspace(0, len(outputs) - 1, min(MOST_SENTENCES, len(outputs))).round().astype(int))

        def kept(texts: Sequence[str]) -> tuple[str, ...]:
            return tuple(texts[place][:MOST_CHARACTERS] for place in places)

        return cls(step, problem, None if sources is None else kept(sources), kept(references), kept(outputs))

    @property
    def sentences(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Sources and references of the outputs."""
        return self.sources, self.references


def read_dev_outputs(path: Path) -> list[DevOutputs]:
    """Returns the evaluations in a file, in its order; skips damaged lines, and lines that depend on them.

    Raises:
        MachineError: the file cannot be read.
    """
    with os_errors_as_machine_errors(f"cannot read {path}"):
        fetch(path)
        try:
            with path.open("rb") as file:
                content = file.read(MOST_BYTES)
        except FileNotFoundError:
            return []
    return list(_evaluations(content))


def _evaluations(content: bytes) -> Iterator[DevOutputs]:
    known: dict[str, dict[str, Any]] = {}
    for line in content.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
            values = json.loads(line)
            problem = values["problem"]
            values = {**known.get(problem, {}), **values}
            found = DevOutputs(
                values["step"], problem, values["sources"] and _texts(values["sources"]),
                _texts(values["references"]), _texts(values["outputs"]),
            )  # fmt: skip
            lengths = {len(texts) for texts in (found.sources, found.references, found.outputs) if texts is not None}
            if type(found.step) is int and len(lengths) == 1:
                known[problem] = {"sources": values["sources"], "references": values["references"]}
                yield found


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
        raise ValueError("no list of texts")
    return tuple(values)


def add_dev_outputs(path: Path, added: Sequence[DevOutputs]) -> None:
    """Adds evaluations to a file; removes those of the same problem and the same or later steps, undone by resuming.

    Raises:
        MachineError: the file cannot be written.
    """
    kept = read_dev_outputs(path)
    for one in added:
        own = [old for old in kept if old.problem == one.problem and old.step < one.step]
        if len(own) >= MOST_EVALUATIONS:
            own = own[::2]
        kept = [*(old for old in kept if old.problem != one.problem), *own, one]
    kept.sort(key=lambda one: (one.step, one.problem))
    with os_errors_as_machine_errors(f"cannot write {path}"):
        write_atomically(path, "".join(_lines(kept)).encode())


def _lines(evaluations: Sequence[DevOutputs]) -> Iterator[str]:
    known: dict[str, Any] = {}
    for one in evaluations:
        values: dict[str, Any] = {"step": one.step, "problem": one.problem}
        if known.get(one.problem) != one.sentences:
            values |= {"sources": one.sources, "references": one.references}
        known[one.problem] = one.sentences
        yield json.dumps({**values, "outputs": one.outputs}) + "\n"
