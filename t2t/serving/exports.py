"""Serves SavedModels made by `t2t-exporter`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.decoding.result import exists
from t2t.errors import UserError
from t2t.export.formats import REPORT
from t2t.export.served import CUT_INPUTS, CUT_OUTPUTS, SCORE, TEXT
from t2t.files.paths import local_path
from t2t.files.remote.mirror import fetch_folder
from t2t.files.trust import read_sealed
from t2t.inference.output_terms import OutputTerms
from t2t.inference.translator import Hypothesis
from t2t.serving.checked_export import load_checked
from t2t.serving.models import Answer, BatchLimits, Question, ServedModel


class ServedExport(ServedModel):
    """An export behind a queue, see `ServedModel`. Its search is fixed; those made by early versions report no cuts.

    Raises:
        UserError: an export of another format, a damaged one, or one that may do more than compute; inputs that are not
            text; or more outputs than it was exported with.
    """

    def __init__(self, name: str, folder: Path | str, n_best: int = 1, limits: BatchLimits | None = None):
        self.translator = None  # type: ignore[assignment]  # none: its search is fixed
        self._folder = local_path(folder)
        fetch_folder(self._folder)
        self._most, self._run = _read_report(self._folder)
        try:
            self._loaded = load_checked(self._folder)
            self._serve = self._loaded.signatures[TEXT]
        except (OSError, KeyError, ValueError, tf.errors.OpError) as error:
            raise UserError(
                f"{self._folder} cannot be loaded ({type(error).__name__}); export the run again"
            ) from error
        self._gives_classes = "classes" in self._serve.structured_outputs
        (given,) = self._serve.structured_input_signature[1].values()
        self._open(name, given.dtype == tf.string, int(self._run["step"]), n_best, limits)

    can_stream = False

    def _group(self, question: Question) -> None:
        """Of one group are all questions."""

    def describe(self) -> dict[str, Any]:
        """Returns name, step and problem, as JSON."""
        return self._described(self._run.get("problem"), most_hypotheses=self._most)

    @property
    def continues(self) -> bool:
        """Whether outputs continue the given texts, as in language models."""
        return SCORE in self._loaded.signatures

    def prompt(self, text: str) -> str:
        """Returns the text that the outputs begin with: `text` itself, or empty if the model has inputs."""
        return text if self.continues else ""

    def _own_rows(self, n_best: int) -> int:
        return self._most

    def questions(
        self,
        texts: Sequence[str],
        n_best: int | None = None,
        changes: Mapping[str, Any] | None = None,
        most_tokens: int | None = None,
        terms: OutputTerms | None = None,
        *,
        truncate: bool = True,
    ) -> list[Question]:
        """Returns the questions of a request; raises UserError for too large `n_best`, and for any other setting.

        Whether a text is too long shows in its answer, since the graph alone encodes it.
        """
        n_best = n_best or self.n_best
        if n_best > self._most:
            raise UserError(
                f"n_best={n_best}: {self._folder} was exported with {self._most}; ask for as many, or export the run "
                f"with --n_best={n_best}"
            )
        fixed = [*(changes or ()), *([] if most_tokens is None else ["max_tokens"])]
        fixed += [] if terms is None else ["constraints"]
        if fixed:
            raise UserError(
                f"{', '.join(fixed)}: model {self.name!r} is an export, which answers as it was made; leave that out "
                f"or serve its run"
            )
        return [Question(text, n_best, truncate=truncate) for text in texts]

    def warm_up_others(self) -> None:
        """Does nothing: there is one search."""

    def _decode_made_up(self, count: int, length: int) -> None:
        self.answer([Question(" ".join(["."] * length))] * count)

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Returns the answers from one call of the graph."""
        found = self._serve(text=tf.constant([question.text for question in questions]))
        texts, scores = found.get("classes", found.get("outputs")).numpy(), found["scores"].numpy()
        cut_inputs = found[CUT_INPUTS].numpy().tolist() if CUT_INPUTS in found else [None] * len(questions)
        cut = found[CUT_OUTPUTS].numpy() if CUT_OUTPUTS in found else np.zeros(scores.shape, bool)
        answers = []
        for row, question in enumerate(questions):
            existing = [k for k in range(question.n_best) if exists(scores[row, k])]
            hypotheses = [self._hypothesis(texts[row, k], scores[row, k], bool(cut[row, k])) for k in existing]
            answers.append(Answer(hypotheses, cut_inputs[row]))
        return answers

    def _hypothesis(self, text: bytes, score: np.float32, cut: bool) -> Hypothesis:
        log_prob = float(score) if self._gives_classes else None  # a search graph returns only the score
        return Hypothesis(text.decode(), (), float(score), log_prob, cut=cut)


def _read_report(folder: Path) -> tuple[int, dict[str, Any]]:
    """Returns the number of outputs of an export and facts of its run; raises UserError if it cannot be served."""
    try:
        report = read_sealed(folder / REPORT)
        if report["format"] == "saved_model":
            return int(report["n_best"]), {**report["run"], "step": int(report["run"]["step"])}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / REPORT} is damaged ({type(error).__name__}); export the run again") from error
    raise UserError(
        f"{folder} is an export of format {report['format']}; the service takes runs and exports of saved_model"
    )
