"""What is served: a run under a name, its queue, and what it answers."""

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
    """What a model makes of a text."""

    hypotheses: Sequence[Hypothesis]
    cut: bool | None
    """Whether the text was longer than the model takes, and only its beginning was read; None where it is not known."""


BLANK = Answer((NOTHING,), cut=False)
"""To a text that is empty or white space."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """How requests come together; for each model."""

    most_texts: int = 32
    """Texts answered together."""
    wait_s: float = 0.003
    """Seconds that a text waits for others."""
    room: int = 256
    """Texts that may wait."""
    workers: int = 1
    """Batches answered at a time."""


class ServedModel:
    """A translator behind a queue.

    Args:
        name: in addresses.
        translator: what answers; checked for being able to.
        step: updates of its checkpoint, the version.
        n_best: outputs of each text where a request does not say.
        limits: of the queue.

    Raises:
        UserError: inputs that are no text, more outputs than the search has.
    """

    def __init__(
        self, name: str, translator: Translator, step: int, n_best: int = 1, limits: BatchLimits | None = None
    ):
        self.translator = translator
        self._open(name, translator.reads_text, step, n_best, limits)

    def _open(self, name: str, reads_text: bool, step: int, n_best: int, limits: BatchLimits | None) -> None:
        """Checks what it is given, answers once, and opens the queue."""
        if not reads_text:
            raise UserError(
                f"model {name!r}: its inputs are no text, which is all that the service takes; serve another"
            )
        self.name, self.step, self.n_best = name, step, n_best
        self.check(n_best)
        limits = limits or BatchLimits()
        self.answer([Question(".", n_best)])  # builds what every request needs
        self.queue = Batcher(
            self.answer, most=limits.most_texts, wait_s=limits.wait_s, room=limits.room, workers=limits.workers
        )

    def check(self, n_best: int) -> None:
        """Raises UserError where there are not so many outputs."""
        self.translator.settings(n_best)

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Returns the answers, searching those of as many hypotheses together; blank texts as in a file."""
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
