"""A run served under a name: its queue and its answers."""

import dataclasses
from collections.abc import Sequence

from t2t.errors import UserError
from t2t.inference.files.job import NOTHING
from t2t.inference.translator import Hypothesis, Translator
from t2t.serving.batcher import Batcher


@dataclasses.dataclass(frozen=True)
class Question:
    """One text of a request."""

    text: str
    n_best: int = 1


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
        self.check(n_best)
        limits = limits or BatchLimits()
        self.answer([Question(".", n_best)])  # builds what every request needs
        self.queue = Batcher(self.answer, most=limits.most_texts, wait_s=limits.wait_s, room=limits.room)

    def check(self, n_best: int) -> None:
        """Raises UserError for more outputs than the search has."""
        self.translator.settings(n_best)

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Returns the answers; questions of equal `n_best` are searched together."""
        found = {i: BLANK for i, question in enumerate(questions) if self.translator.is_blank(question.text)}
        asked = [i for i in range(len(questions)) if i not in found]
        for n_best in sorted({questions[i].n_best for i in asked}):
            places = [i for i in asked if questions[i].n_best == n_best]
            texts = [questions[i].text for i in places]
            ids = self.translator.encode(texts)
            outputs = self.translator.translate_ids(ids, n_best, sources=texts)
            longest = self.translator.longest_input
            for place, row, output in zip(places, ids, outputs, strict=True):
                found[place] = Answer(output, cut=len(row) > longest)
        return [found[i] for i in range(len(questions))]
