"""BLEU of every translation in a folder written by t2t-translate-all, one file for each checkpoint."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t.cli.pairs import read_with_references
from t2t.cli.polling import steps_as_they_appear
from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.metrics.base import Score
from t2t.metrics.text import bleu
from t2t.runs.startup import quietly

CASED, UNCASED, BOTH = "cased", "uncased", "both"
VARIANTS = {CASED: (CASED,), UNCASED: (UNCASED,), BOTH: (UNCASED, CASED)}
"""Value of --bleu_variant -> variants to compute."""

_STEP = re.compile(r".+-(\d{1,18})")


def score_variants(
    pairs: tuple[list[str], list[str]], language: str, options: Mapping[str, Any], variants: Sequence[str]
) -> dict[str, Score]:
    """Returns BLEU of (translations, references) for each variant; uncased ignores case."""
    changes = {CASED: {}, UNCASED: {"lowercase": True}}
    return {variant: bleu(*pairs, language, **{**options, **changes[variant]}) for variant in variants}


def score_folder(
    folder: str,
    reference: str,
    language: str,
    options: Mapping[str, Any],
    variants: Sequence[str],
    min_steps: int = 0,
    wait_minutes: float = 0.0,
) -> Iterator[tuple[int, Path, dict[str, Score]]]:
    """Yields step, file and scores of each file `<name>-<step>`, in order of steps.

    Raises:
        UserError: no such folder or file, two files of one step, or line counts that differ from the reference.
    """
    place = local_path(folder)
    if not place.is_dir():
        raise UserError(f"--translations_dir={folder}: there is no such folder; name that of t2t-translate-all")
    found = False
    for step in steps_as_they_appear(lambda: _files(place), min_steps, wait_minutes):
        found, file = True, _files(place)[step]
        translations, references, more = read_with_references(str(file), reference)
        how = {**options, "more_references": more}
        yield step, file, score_variants((translations, references), language, how, variants)
    if not found:
        raise UserError(f"--translations_dir={folder}: it has no file <name>-<step> of at least {min_steps} updates")


def _files(place: Path) -> dict[int, Path]:
    """Returns the files named `<name>-<step>`, by step; unfinished `.partial` files do not match."""
    found: dict[int, Path] = {}
    for path in sorted(place.iterdir()):
        if (match := _STEP.fullmatch(path.name)) and path.is_file():
            step = int(match[1])
            if step in found:
                raise UserError(f"{found[step]} and {path} are both of step {step}; keep the files of one problem")
            found[step] = path
    return found


class Events:
    """Writes scores to a TensorBoard log folder; does nothing if `folder` is empty."""

    def __init__(self, folder: str, tag_suffix: str = ""):
        self._suffix = tag_suffix
        self._summary, self._writer = None, None
        if folder:
            with quietly():
                import tensorflow as tf
            self._summary = tf.summary
            self._writer = tf.summary.create_file_writer(str(local_path(folder)))

    def write(self, step: int, scores: Mapping[str, Score]) -> None:
        """Writes `BLEU_cased` and `BLEU_uncased` of a step."""
        if self._summary is None or self._writer is None:
            return
        with self._writer.as_default(step=step):
            for variant, score in scores.items():
                self._summary.scalar(f"BLEU_{variant}{self._suffix}", score.value)
        self._writer.flush()
