"""EVALB's reports on its own sample files and on 500 trees with noise, line for line."""

import contextlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.known_answers import Row
from t2t.cli import evalb
from t2t.errors import T2TError
from t2t.files.lines import read_lines
from t2t.metrics import compute
from t2t.metrics.brackets import BUILT_IN, read_parameters

FOLDER = "parse/evalb"
REPORTS = (
    ("sample", "COLLINS.prm", "sample.COLLINS.rerun.rsl"),
    ("sample", "sample.prm", "sample.sample_prm.rerun.rsl"),
    ("bug", "new.prm", "bug.new_prm.rerun.rsl"),
    ("craft_noised", "COLLINS.prm", "craft_noised.COLLINS.rsl"),
    ("craft_noised", "COLLINS", "craft_noised.COLLINS.rsl"),
)
"""Name of the tree files, parameter file or built-in settings, file with EVALB's standard output."""
WITH_ERRORS = ("bug", "sample.prm", "bug.rsl-old")
"""The same with interleaved standard error, from an older EVALB with other leading blanks and one more empty line."""
SETTINGS = (("COLLINS", "COLLINS.prm"), ("new", "new.prm"))
METRICS = {
    "bracket_recall": "89.82",
    "bracket_precision": "92.96",
    "bracket_f1": "91.37",
    "bracket_exact_match": "16.67",
    "bracket_crossing": "0.02",
    "bracket_tagging_accuracy": "96.94",
}
"""Results for craft_noised, from EVALB's summary."""


def check(
    data: Path,
    *,
    reports: Sequence[tuple[str, str, str]] = REPORTS,
    with_errors: tuple[str, str, str] = WITH_ERRORS,
    settings: Sequence[tuple[str, str]] = SETTINGS,
    metrics: Mapping[str, str] = METRICS,
) -> list[Row]:
    """Compares `t2t-evalb`, the built-in settings and the metrics with EVALB's files."""
    folder = data / FOLDER
    rows = [_report(folder, *report) for report in reports]
    rows.append(_report(folder, *with_errors, errors=True))
    return [*rows, *_settings(folder, settings), *_metrics(folder, metrics)]


def _report(folder: Path, name: str, settings: str, reference: str, errors: bool = False) -> Row:
    settings = str(folder / settings) if settings not in BUILT_IN else settings
    expected = (folder / reference).read_text(encoding="utf-8")
    found = _run(folder, name, settings, errors)
    compared = "output and errors, blanks aside," if errors else "output"
    if errors:
        expected, found = map(_without_blanks, (expected, found))
    return Row(
        check=f"t2t-evalb -p {Path(settings).name} {name}",
        expected=f"{compared} as {reference}",
        found=_difference(expected, found),
        ok=expected == found,
    )


def _run(folder: Path, name: str, settings: str, errors: bool) -> str:
    """Returns the standard output of the command, with `errors` interleaved with its standard error."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out if errors else io.StringIO()):
        status = evalb.main(["t2t-evalb", "-p", settings, str(folder / f"{name}.gld"), str(folder / f"{name}.tst")])
    if status:
        raise T2TError(f"t2t-evalb on {name}: exit status {status}")
    return out.getvalue()


def _without_blanks(text: str) -> str:
    return "".join(line.strip() + "\n" for line in text.splitlines() if line.strip())


def _difference(expected: str, found: str) -> str:
    """Returns a message that the texts are equal, or with their first different line."""
    ours, theirs = found.splitlines(keepends=True), expected.splitlines(keepends=True)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), start=1):
        if one != other:
            return f"line {number}: {one.strip()!r} for {other.strip()!r}"
    return f"{len(ours)} equal lines" if len(ours) == len(theirs) else f"{len(ours)} lines for {len(theirs)}"


def _settings(folder: Path, settings: Sequence[tuple[str, str]]) -> list[Row]:
    rows = []
    for name, file in settings:
        equal = read_parameters(folder / file) == BUILT_IN[name]
        found = "equal" if equal else "other settings"
        rows.append(Row(check=f"built-in settings {name}", expected=f"those of {file}", found=found, ok=equal))
    return rows


def _metrics(folder: Path, metrics: Mapping[str, str]) -> list[Row]:
    gold, test = (list(read_lines(folder / f"craft_noised.{side}", Counter())) for side in ("gld", "tst"))
    rows = []
    for name, score in compute(metrics, test, gold).items():
        found = f"{score.value:.2f}"
        expected = metrics[name]
        rows.append(Row(check=f"{name} of craft_noised", expected=expected, found=found, ok=found == expected))
    return rows
