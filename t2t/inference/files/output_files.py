"""Outputs that are written to separate files, e.g. sounds: the output format `files`.

Beside the output `out`, the file of line 17 is `out.files/17.wav`, which line 17 of `out` names; with several outputs
they are `out.files/17-1.wav`, `out.files/17-2.wav` and so on, best first, separated by TAB.
"""

from collections.abc import Sequence
from pathlib import Path

from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.lines import STANDARD
from t2t.files.remote.mirror import publish
from t2t.inference.files.formats import FILES, FORMATS, Renderer, renderer
from t2t.inference.translator import Hypothesis
from t2t.problems.base import Problem, feature_of
from t2t.specs.constants import TARGETS


def job_renderer(output_format: str, problem: Problem, target: str) -> Renderer:
    """Returns the renderer of an output format; that of `files` writes its files next to `target`.

    Raises:
        UnknownNameError: no such format.
        UserError: the format is `files`, and outputs are text alone or do not go to a file.
    """
    return OutputFiles(problem, target) if output_format == FILES else renderer(output_format)


class OutputFiles:
    """Writes each output into a file; a `Renderer` of lines that name the files, relative to the output's folder."""

    def __init__(self, problem: Problem, target: str):
        self._feature = feature_of(problem, TARGETS)
        if not self._feature.output_suffix:
            raise UserError(
                f"--output_format={FILES}: outputs of {problem.name} are text alone; use one of {', '.join(FORMATS)}"
            )
        if target in ("", STANDARD):
            raise UserError(
                f"--output_format={FILES}: files go next to the output, which goes to "
                f"{'standard output' if target else 'no file'}; name a file with --decode_to_file"
            )
        self._folder = Path(f"{target}.files")

    def __call__(self, number: int, found: Sequence[Hypothesis], n_best: int) -> tuple[str, int]:
        """Returns a line of names, see `Renderer`; an input without an output has none.

        Raises:
            MachineError: a file cannot be written.
        """
        names = [self._write(f"{number}-{k}" if n_best > 1 else f"{number}", one) for k, one in enumerate(found, 1)]
        return "\t".join(names), 0

    def _write(self, stem: str, hypothesis: Hypothesis) -> str:
        if not hypothesis.ids:
            return ""
        name = f"{stem}{self._feature.output_suffix}"
        with os_errors_as_machine_errors(f"cannot write {self._folder / name}"):
            self._folder.mkdir(exist_ok=True)
            write_atomically(self._folder / name, self._feature.output_file(hypothesis.text))
            publish(self._folder / name)
        return f"{self._folder.name}/{name}"
