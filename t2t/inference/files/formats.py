r"""How the outputs for one input are written: always on one line.

    text    the best output; with more than one, all of them, best first, separated by TAB
    tsv     text, score, log-probability of each output in turn; columns that are not filled stay empty
    jsonl   {"line": 17, "hypotheses": [{"text": ..., "score": ..., "log_prob": ...}]}; a hypothesis that the problem
            had to repair has "repaired": true; one that was cut at the limit "finish_reason": "length"
    files   the names of files with the outputs, for problems of sound or images: see `output_files`
    pharaoh the word alignments of the outputs alone, separated as text is

With alignments, text has ` ||| 0-0 1-2` after each output, as Marian and OpenNMT write them, tsv a further column for
each output, and jsonl "alignment": [[0, 0], [1, 2]]. With scores of tokens, jsonl has "tokens": [["\u2581Haus", -0.2]].

Characters that would break a line (`\n` and `\r`, and TAB where it separates) become spaces in text and TSV; JSON
escapes them. Line numbers count from 1; scores have six digits after the point.

The format `files` writes outputs such as sounds to files of their own. Beside the output `out`, the file of line 17 is
`out.files/17.wav`, which line 17 of `out` names; with several outputs they are `out.files/17-1.wav`,
`out.files/17-2.wav` and so on, best first, separated by TAB.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from t2t.errors import UnknownNameError, UserError, did_you_mean
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.lines import STANDARD
from t2t.files.pharaoh import format_links
from t2t.files.remote.mirror import publish
from t2t.inference.hypothesis import Hypothesis
from t2t.problems.base import Problem, feature_of
from t2t.specs import TARGETS

Renderer = Callable[[int, Sequence[Hypothesis], int], tuple[str, int]]
"""(line number, hypotheses, n_best) -> (the line without its end, how many outputs had characters replaced)."""

TEXT = "text"
"""The format without scores."""

FILES = "files"
"""The format that needs more than the outputs: a place for files, see `output_files`."""

_BREAKS = re.compile(r"[\n\r]")
_BREAKS_AND_TABS = re.compile(r"[\n\r\t]")
# JSON allows these inside a string, but some readers of lines end a line at them.
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}


def renderer(name: str) -> Renderer:
    """Returns the renderer of any format but `FILES`.

    Raises:
        UnknownNameError: no such format.
    """
    known = (*FORMATS, FILES)
    if name not in FORMATS:
        raise UnknownNameError(
            f"output format {name!r} does not exist", f"{did_you_mean(name, known)}use one of {', '.join(known)}"
        )
    return FORMATS[name]


def _text(number: int, found: Sequence[Hypothesis], n_best: int) -> tuple[str, int]:
    forbidden = _BREAKS if n_best == 1 else _BREAKS_AND_TABS
    texts = [forbidden.sub(" ", hypothesis.text) for hypothesis in found]
    cells = [
        text if one.alignment is None else f"{text} ||| {format_links(one.alignment)}"
        for text, one in zip(texts, found, strict=True)
    ]
    return "\t".join(cells), _changed(texts, found)


def _tsv(number: int, found: Sequence[Hypothesis], n_best: int) -> tuple[str, int]:
    texts = [_BREAKS_AND_TABS.sub(" ", hypothesis.text) for hypothesis in found]
    cells = []
    for text, hypothesis in zip(texts, found, strict=True):
        cells += [text, f"{hypothesis.score:.6f}", f"{hypothesis.log_prob:.6f}"]
        if hypothesis.alignment is not None:
            cells.append(format_links(hypothesis.alignment))
    columns = len(cells) // len(found)
    return "\t".join(cells + [""] * (columns * n_best - len(cells))), _changed(texts, found)


def _jsonl(number: int, found: Sequence[Hypothesis], n_best: int) -> tuple[str, int]:
    hypotheses = [
        {
            "text": one.text,
            "score": round(one.score, 6),
            "log_prob": None if one.log_prob is None else round(one.log_prob, 6),
        }
        | ({"repaired": True} if one.repaired else {})
        | ({"finish_reason": one.finish_reason} if one.cut else {})
        | ({} if one.tokens is None else {"tokens": [(piece, round(value, 6)) for piece, value in one.tokens]})
        | ({} if one.alignment is None else {"alignment": one.alignment})
        for one in found
    ]
    line = json.dumps({"line": number, "hypotheses": hypotheses}, ensure_ascii=False)
    return line.translate(_ESCAPED), 0


def _pharaoh(number: int, found: Sequence[Hypothesis], n_best: int) -> tuple[str, int]:
    return "\t".join(format_links(hypothesis.alignment or ()) for hypothesis in found), 0


def _changed(texts: Sequence[str], found: Sequence[Hypothesis]) -> int:
    return sum(text != hypothesis.text for text, hypothesis in zip(texts, found, strict=True))


PHARAOH = "pharaoh"
"""The format of word alignments alone, which needs the hparam `alignments`."""

FORMATS: dict[str, Renderer] = {TEXT: _text, "tsv": _tsv, "jsonl": _jsonl, PHARAOH: _pharaoh}


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
                f"outputs of {problem.name} are only text",
                f"use one of {', '.join(FORMATS)}",
                option="output_format",
                value=FILES,
            )
        if target in ("", STANDARD):
            raise UserError(
                f"files go next to the output, which goes to {'standard output' if target else 'no file'}",
                "name a file with --decode_to_file",
                option="output_format",
                value=FILES,
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
