"""A run served under a name: its queue and its answers."""

import contextlib
import dataclasses
import itertools
import logging
import queue
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t.decoding.settings import SAMPLE
from t2t.errors import UserError
from t2t.inference.files.job import NOTHING
from t2t.inference.output_terms import OutputTerms
from t2t.inference.settings import SEED
from t2t.inference.translator import Hypothesis, Translator
from t2t.serving.batcher import Batcher
from t2t.serving.search_changes import FIELDS, check_changes, limit_tokens
from t2t.specs.constants import EOS_ID

log = logging.getLogger("t2t")

WARM_UP_LENGTHS = (4, 16, 64)
"""Ids, or words, of made-up inputs."""
WARM_UP_SECONDS = 10.0
"""No further one is decoded after this time, for each model."""


@dataclasses.dataclass(frozen=True)
class Question:
    """One text of a request."""

    text: str
    n_best: int = 1
    changes: tuple[tuple[str, Any], ...] = ()
    """Of the run's search, by name, see `t2t.serving.search_changes`."""
    place: int = 0
    """What names the text when sampling."""
    terms: OutputTerms | None = None
    """What is asked of the words of outputs; None for nothing."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """The outputs for a text."""

    hypotheses: Sequence[Hypothesis]
    cut: bool | None
    """Whether the text was too long and only its beginning was read; None if unknown."""
    length: int | None = None
    """Ids of the text that were read, without end of sequence; None if unknown."""


BLANK = Answer((NOTHING,), cut=False, length=0)
"""Answer to a blank text."""


class PartialAnswer(NamedTuple):
    """An answer to a text after a step of its search."""

    texts: Sequence[str]
    """The beginning of each output that is final, see `PartialOutputs`."""
    answer: Answer | None
    """The whole answer, after the last step."""


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
        devices = translator.model_engine.devices if translator.is_built else ("",)
        self._open(name, translator.reads_text, step, n_best, limits, devices)

    def _open(
        self,
        name: str,
        reads_text: bool,
        step: int,
        n_best: int,
        limits: BatchLimits | None,
        devices: Sequence[str] = ("",),
    ) -> None:
        """Checks its arguments and opens the queue; batches are answered on all devices, one on each."""
        if not reads_text:
            raise UserError(
                f"model {name!r}: its inputs are no text, which is all that the service takes; serve another"
            )
        self.name, self.step, self.n_best = name, step, n_best
        self.limits = limits or BatchLimits()
        self.most_rows = max(self.limits.beam, self._own_rows(n_best))
        self.questions([])  # checks n_best
        self._devices = list(enumerate(devices))
        self._free: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        for device in self._devices:
            self._free.put(device)
        self._rotation = itertools.cycle(self._devices)
        self.queue = Batcher(
            self._answer_on_free_device,
            most=self.limits.most_texts,
            wait_s=self.limits.wait_s,
            room=self.limits.room,
            threads=len(self._devices),
        )

    def warm_up(self, seconds: float = WARM_UP_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """Decodes made-up inputs on each device, one and a full batch, so that requests find all compiled.

        Args:
            seconds: the last one begins within this time; there is at least one on each device.
            clock: gives seconds.
        """
        start = clock()
        for done, (count, length) in enumerate((n, m) for n in (1, self.limits.most_texts) for m in WARM_UP_LENGTHS):
            if done and clock() - start >= seconds:
                break
            for device in self._devices:
                with _use_device(*device):
                    self._decode_made_up(count, length)
        log.info("model %s is warmed up, %.1f s", self.name, clock() - start)

    def _decode_made_up(self, count: int, length: int) -> None:
        """Decodes some inputs of a length."""
        spec = self.translator.facts.spec
        size = (count, min(length, self.translator.longest_input))
        ids = np.random.default_rng(0).integers(EOS_ID + 1, (spec.inputs or spec.targets).vocab_size, size)
        self.translator.warm_up(ids.tolist(), self.n_best)

    @contextlib.contextmanager
    def _free_device(self) -> Iterator[None]:
        device = self._free.get()
        try:
            with _use_device(*device):
                yield
        finally:
            self._free.put(device)

    def _answer_on_free_device(self, questions: Sequence[Question]) -> list[Answer]:
        with self._free_device():
            return self.answer(questions)

    def _own_rows(self, n_best: int) -> int:
        return self.translator.settings(n_best)[0].rows_per_sentence

    @property
    def can_stream(self) -> bool:
        """Whether answers are available before their search has ended."""
        if not self.translator.is_built:
            return False
        from t2t.inference.partial_outputs import has_partial_outputs

        return has_partial_outputs(self.translator)

    def describe(self) -> dict[str, Any]:
        """Returns name, step, problem, languages and search settings, as JSON."""
        problem, hparams = self.translator.problem, self.translator.hparams
        return self._described(
            problem.name,
            source_language=problem.source_language or None,
            target_language=problem.target_language or None,
            search={name: getattr(hparams, name) for name in FIELDS} if self.translator.facts.autoregressive else None,
            most_hypotheses=self.most_rows,
        )

    def _described(self, problem: str | None, **more: Any) -> dict[str, Any]:
        facts = {"name": self.name, "step": self.step, "problem": problem, "n_best": self.n_best}
        facts |= {"streams": self.can_stream, **more}
        return {name: value for name, value in facts.items() if value is not None}

    @property
    def continues(self) -> bool:
        """Whether outputs begin with their texts: there are no inputs."""
        return not self.translator.has_inputs

    def prompt(self, text: str) -> str:
        """Returns what the outputs for a text begin with: the text as it was read, where the model continues it."""
        if not self.continues:
            return ""
        (ids,) = self.translator.encode([text])
        return self.translator.problem.decode_target(ids[: self.translator.longest_input])

    def questions(
        self,
        texts: Sequence[str],
        n_best: int | None = None,
        changes: Mapping[str, Any] | None = None,
        most_tokens: int | None = None,
        terms: OutputTerms | None = None,
    ) -> list[Question]:
        """Returns the questions of a request; samples without a seed are other ones each time.

        Args:
            texts: of the request.
            n_best: outputs for each; None for what the model gives by itself.
            changes: of the search.
            most_tokens: longest output, without the text that it continues; None for what the search allows.
            terms: what is asked of the words of each output; None for nothing.

        Raises:
            UserError: see `check_changes`; or an output cannot be kept to that length, or to these terms.
        """
        n_best, changes = n_best or self.n_best, changes or {}
        settings = check_changes(self.translator, n_best, changes, self.most_rows)
        if terms is not None:
            self.translator.check_terms(terms, n_best, **changes)
        places: Sequence[int] = range(len(texts))
        if settings.method == SAMPLE and SEED not in changes:
            places = [secrets.randbits(31) for _ in texts]
        limits: list[dict[str, Any]] = [{}] * len(texts)
        if most_tokens is not None:
            limits = [limit_tokens(self.translator, text, changes, most_tokens) for text in texts]
        keys = [tuple(sorted({**changes, **limit}.items())) for limit in limits]
        return [Question(text, n_best, key, place, terms) for text, key, place in zip(texts, keys, places, strict=True)]

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
            how: dict[str, Any] = dict(changes)
            if any(questions[i].terms for i in numbers):
                how["constraints"] = [questions[i].terms for i in numbers]
            outputs = self.translator.translate_ids(ids, n_best, places=places, sources=texts, **how)
            longest = self.translator.longest_input
            for i, row, output in zip(numbers, ids, outputs, strict=True):
                found[i] = Answer(output, len(row) > longest, min(len(row), longest))
        return [found[i] for i in range(len(questions))]

    def stream(self, question: Question) -> Iterator[PartialAnswer]:
        """Yields the answer to a question after each step of its search; only where `can_stream`."""
        if self.translator.is_blank(question.text):
            yield PartialAnswer([""], BLANK)
            return
        (ids,) = self.translator.encode([question.text])
        longest = self.translator.longest_input
        from t2t.inference.partial_outputs import partial_outputs

        with _use_device(*next(self._rotation)):
            for texts, hypotheses in partial_outputs(
                self.translator,
                question.text,
                question.n_best,
                place=question.place,
                terms=question.terms,
                **dict(question.changes),
            ):
                whole = hypotheses and Answer(hypotheses, len(ids) > longest, min(len(ids), longest))
                yield PartialAnswer(texts, whole or None)


def _use_device(number: int, name: str) -> contextlib.AbstractContextManager[None]:
    """Returns a context that runs on a device; one without a name is the only one, and nothing need be chosen."""
    if not name:
        return contextlib.nullcontext()
    from t2t.inference.backend_choice import inference_backend

    return inference_backend().use_device(number, name)
