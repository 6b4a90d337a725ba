"""A run served under a name: its queue and its answers."""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from t2t.decoding.search import SAMPLE
from t2t.errors import UserError
from t2t.inference.files.job import NOTHING
from t2t.inference.translator import Hypothesis, Translator
from t2t.serving.batcher import Batcher
from t2t.serving.search_changes import SEED, check_changes


@dataclasses.dataclass(frozen=True)
class Question:
    """One text of a request."""

    text: str
    n_best: int = 1
    changes: tuple[tuple[str, Any], ...] = ()
    """Of the run's search, by name, see `t2t.serving.search_changes`."""
    place: int = 0
    """What names the text when sampling."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """The outputs for a text."""

    hypotheses: Sequence[Hypothesis]
    cut: bool | None
    """Whether the text was too long and only its beginning was read; None if unknown."""


BLANK = Answer((NOTHING,), cut=False)
"""Answer to a blank text."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """Batching of requests, for each model."""

    most_texts: int = 32
    """Texts answered together."""
    wait_s: float = 0.003
    """Seconds that a text waits for others."""
    room: int = 256
    """Texts that may wait."""
    beam: int = 8
    """Largest beam, or most samples of a text, that a request may ask for; at least what the model itself has."""


class ServedModel:
    """A translator behind a queue; its version is the `step` of its checkpoint, `n_best` is of requests without one.

    Raises:
        UserError: inputs that are no text, more outputs than the search has.
    """

    def __init__(
        self, name: str, translator: Translator, step: int, n_best: int = 1, limits: BatchLimits | None = None
    ):
        self.translator = translator
        self._open(name, translator.reads_text, step, n_best, limits)

    def _open(self, name: str, reads_text: bool, step: int, n_best: int, limits: BatchLimits | None) -> None:
        """Checks its arguments, answers once, and opens the queue."""
        if not reads_text:
            raise UserError(
                f"model {name!r}: its inputs are no text, which is all that the service takes; serve another"
            )
        self.name, self.step, self.n_best = name, step, n_best
        limits = limits or BatchLimits()
        self.most_rows = max(limits.beam, self._own_rows(n_best))
        self.answer(self.questions(["."]))  # builds what every request needs
        self.queue = Batcher(self.answer, most=limits.most_texts, wait_s=limits.wait_s, room=limits.room)

    def _own_rows(self, n_best: int) -> int:
        return self.translator.settings(n_best)[0].rows_per_sentence

    def questions(
        self, texts: Sequence[str], n_best: int | None = None, changes: Mapping[str, Any] | None = None
    ) -> list[Question]:
        """Returns the questions of a request; samples without a seed are other ones each time.

        Raises:
            UserError: see `check_changes`.
        """
        n_best, changes = n_best or self.n_best, changes or {}
        settings = check_changes(self.translator, n_best, changes, self.most_rows)
        places: Sequence[int] = range(len(texts))
        if settings.method == SAMPLE and SEED not in changes:
            places = [secrets.randbits(31) for _ in texts]
        key = tuple(sorted(changes.items()))
        return [Question(text, n_best, key, place) for text, place in zip(texts, places, strict=True)]

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Returns the answers; questions of equal settings are searched together."""
        found = {i: BLANK for i, question in enumerate(questions) if self.translator.is_blank(question.text)}
        groups: dict[Any, list[int]] = {}
        for i, question in enumerate(questions):
            if i not in found:
                groups.setdefault((question.n_best, question.changes), []).append(i)
        for (n_best, changes), numbers in groups.items():
            texts, places = zip(*((questions[i].text, questions[i].place) for i in numbers), strict=True)
            ids = self.translator.encode(texts)
            outputs = self.translator.translate_ids(ids, n_best, places=places, sources=texts, **dict(changes))
            longest = self.translator.longest_input
            for i, row, output in zip(numbers, ids, outputs, strict=True):
                found[i] = Answer(output, cut=len(row) > longest)
        return [found[i] for i in range(len(questions))]
