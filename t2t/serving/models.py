"""Served models: a queue that batches requests which arrive at about the same time, and the model behind it."""

import contextlib
import dataclasses
import itertools
import logging
import queue
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from t2t.errors import UserError
from t2t.inference.engine import MOST_SEARCHES
from t2t.inference.hypothesis import NOTHING, Hypothesis
from t2t.inference.output_constraints import OutputTerms
from t2t.inference.rows import cut_row
from t2t.inference.translator import Translator
from t2t.search.settings import BEAM, GREEDY, SAMPLE, SAMPLING_CHANGES, SEED, SearchSettings, check_read
from t2t.serving.requests import FIELDS, Query, RequestError
from t2t.specs import EOS_ID

log = logging.getLogger("t2t")

WARM_UP_LENGTHS = (4, 16, 64)
"""Lengths of the random inputs that warm up a model, in ids, or in words for an export."""
WARM_UP_SECONDS = 10.0
"""Time after which usually no further warm-up batch of a model is started."""
_SAMPLE = {"decode_method": SAMPLE}
OTHER_SEARCHES: Sequence[tuple[int, dict[str, Any]]] = (
    (1, {"decode_method": GREEDY}), (2, {}), (1, _SAMPLE), (1, _SAMPLE | {"sampling_top_p": 0.9}),
    (1, _SAMPLE | {"sampling_top_k": 40}),
)  # fmt: skip
"""Outputs and changed settings of searches that requests usually ask for, apart from the model's own."""


# === The queue ===


class RefusedError(Exception):
    """A request that is not answered: the message says why and what to do."""

    status = 413
    """Status of HTTP."""


class FullError(RefusedError):
    """The queue is full, or closed."""

    status = 429


class EndedError(FullError):
    """The service ends."""

    status = 503

    def __init__(self):
        super().__init__("the service ends; ask again later")


@dataclasses.dataclass(frozen=True)
class _Waiting:
    item: Any
    group: Hashable
    future: Future
    since: float
    """Arrival, in seconds of the monotonic clock."""


class Batcher:
    """A bounded first-in, first-out queue, and threads that process batches of its items.

    A batch starts when it is full, or when its first item has waited for `wait_s`. All its items are of one group.

    Args:
        answer: `answer(items)` returns one result for each item; called in the threads. If it raises for a batch, each
            item is retried separately.
        most: largest number of items in a batch.
        wait_s: seconds that an item waits for others to form a batch.
        room: capacity of the queue, in items.
        threads: number of batches processed concurrently.
        group: returns the group of an item; by default, there is one.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        most: int,
        wait_s: float,
        room: int,
        threads: int = 1,
        group: Callable[[Any], Hashable] = lambda item: None,
    ):
        self._group = group
        self._answer, self._most, self._wait_s, self.room = answer, most, wait_s, room
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self.is_closed = False
        self._threads = [threading.Thread(target=self._work, name="batcher", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Number of items in the queue."""
        return len(self._queue)

    def submit(self, items: Sequence[Any]) -> list[Future]:
        """Queues all items or none, and returns the futures of their results; items with cancelled futures are skipped.

        Raises:
            EndedError: the batcher is closed.
            FullError: the queue has no room for all items.
        """
        with self._changed:
            if self.is_closed:
                raise EndedError
            if len(self._queue) + len(items) > self.room:
                raise FullError(f"too much is waiting: {len(self._queue)} of {self.room} places taken; ask again later")
            entries = [_Waiting(item, self._group(item), Future(), time.monotonic()) for item in items]
            self._queue.extend(entries)
            self._changed.notify_all()  # all threads: there may be several batches
        return [entry.future for entry in entries]

    def close(self, seconds: float | None = None) -> bool:
        """Refuses new items, answers those in the queue, and joins the threads; returns whether they have ended.

        Args:
            seconds: time limit for the threads, which go on until the process ends; None for none.
        """
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            batch = [entry for entry in batch if entry.future.set_running_or_notify_cancel()]
            if batch:
                self._resolve(batch)

    def _resolve(self, batch: list[_Waiting]) -> None:
        try:
            results = self._answer([entry.item for entry in batch])
            if len(results) != len(batch):
                raise RuntimeError(f"{len(results)} results of {len(batch)} items")
        except BaseException as error:  # keeps the thread alive
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            for entry in batch:
                self._resolve([entry])
        else:
            for entry, result in zip(batch, results, strict=True):
                entry.future.set_result(result)

    def _take(self) -> list[_Waiting] | None:
        """Waits for a batch and removes it from the queue; returns None once the queue is closed and empty."""
        with self._changed:
            while True:
                while not self._queue and not self.is_closed:
                    self._changed.wait()
                if not self._queue:
                    return None
                first = self._queue[0]
                found = list(itertools.islice((one for one in self._queue if one.group == first.group), self._most))
                left = first.since + self._wait_s - time.monotonic()
                if self.is_closed or len(found) >= self._most or left <= 0:
                    taken = set(map(id, found))
                    self._queue = deque(one for one in self._queue if id(one) not in taken)
                    return found
                self._changed.wait(left)  # for more items


# === Questions and answers ===


class ContextLengthError(UserError):
    """A text is longer than the model reads."""


@dataclasses.dataclass(frozen=True)
class Question:
    """One text of a request."""

    text: str
    n_best: int = 1
    changes: tuple[tuple[str, Any], ...] = ()
    """Changes of the run's search settings, (name, value), see `check_changes`."""
    sentence_seed: int = 0
    """Number that, with the seed, determines the samples for the text."""
    terms: OutputTerms | None = None
    """Constraints on the words of the outputs; None without any."""
    stops: tuple[str, ...] = ()
    """Texts after the first of which nothing of an output is read, so that its search may end."""
    truncate: bool = True
    """Whether the text may be truncated."""
    settings: SearchSettings | None = None
    """Of its search; None if there is none."""

    @property
    def group(self) -> Hashable:
        """Questions of one group are searched in one batch: they may differ in how they are sampled."""
        changes = tuple((name, value) for name, value in self.changes if name not in SAMPLING_CHANGES)
        return self.n_best, changes, self.kind

    @property
    def kind(self) -> Hashable:
        """Questions of one kind have the same compiled search."""
        return self.settings and self.settings.structure, self.terms is None


@dataclasses.dataclass(frozen=True)
class Answer:
    """The outputs for a text."""

    hypotheses: Sequence[Hypothesis]
    cut: bool | None
    """Whether the text was too long and was truncated; None if unknown."""
    length: int | None = None
    """Number of ids read from the text, without end of sequence; None if unknown."""
    written: int | None = None
    """Number of ids of all outputs, end of sequence included, without the text that they continue; None if unknown."""


BLANK = Answer((NOTHING,), cut=False, length=0, written=0)
"""Answer to a blank text."""


def count_written(lengths: Sequence[int], prompt: int) -> int:
    """Returns the number of ids written in outputs of these lengths, which begin with a prompt of some ids."""
    return sum(max(length - prompt, 0) for length in lengths)


class PartialAnswer(NamedTuple):
    """The state of an answer after a search step."""

    texts: Sequence[str]
    """The final prefix of each output, which later steps do not change, see `PartialOutputs`."""
    answer: Answer | None
    """The complete answer after the last step; None before."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """Limits of batches and queue, for each model."""

    most_texts: int = 32
    """Largest number of texts in a batch."""
    wait_s: float = 0.003
    """Seconds that a text waits for others to form a batch."""
    room: int = 256
    """Capacity of the queue, in texts."""
    beam: int = 8
    """Largest beam, or number of samples per text, that a request may ask for; the model's own is always allowed."""


@dataclasses.dataclass(frozen=True)
class CheckpointSource:
    """Where newer weights of a model come from."""

    stamp: Callable[[], Hashable]
    """Returns what changes with the checkpoint that `load` reads."""
    load: "Callable[[], ServedModel]"


class ServedModel:
    """A translator behind a queue. Its version is the `step` of its checkpoint; `n_best` is the default of requests.

    Raises:
        UserError: the inputs are not text, or `n_best` exceeds the number of outputs of the search.
    """

    source: CheckpointSource | None = None
    """Of newer weights; None if there is none."""
    stamp: Hashable = None
    """Of the source, when this model was loaded."""
    fingerprint = ""
    """Of the checkpoint."""

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
        """Checks the arguments and opens the queue; each device processes one batch at a time."""
        if not reads_text:
            raise UserError(
                f"model {name!r}: its inputs are not text, and the service takes text only", "serve another"
            )
        self.name, self.step, self.n_best = name, step, n_best
        self.limits = limits or BatchLimits()
        self.most_rows = max(self.limits.beam, self._own_rows(n_best))
        self.questions(Query(texts=()))  # checks n_best
        self._devices = list(enumerate(devices))
        self._free: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        for device in self._devices:
            self._free.put(device)
        self._rotation = itertools.cycle(self._devices)
        self._compiled: OrderedDict[Hashable, None] = OrderedDict()
        """The kinds of questions whose searches are compiled, the least recently used first."""
        how: dict[str, Any] = {"most": self.limits.most_texts, "room": self.limits.room, "group": self._group}
        self.queue = Batcher(self._answer_on_free_device, wait_s=self.limits.wait_s, threads=len(self._devices), **how)
        self.first_queue = Batcher(self._answer_first, wait_s=0.0, **how)
        """For questions whose search must be compiled first, so that others do not wait for that."""

    @property
    def is_open(self) -> bool:
        """Whether questions are taken."""
        return not self.queue.is_closed

    @property
    def waiting(self) -> int:
        """Number of texts in the queues."""
        return self.queue.waiting + self.first_queue.waiting

    def close(self, seconds: float | None = None) -> bool:
        """Closes the queues; see `Batcher.close`."""
        end = None if seconds is None else time.monotonic() + seconds
        queues = self.queue, self.first_queue
        return all([one.close(None if end is None else max(0.0, end - time.monotonic())) for one in queues])

    def submit(self, questions: Sequence[Question]) -> list[Future]:
        """Queues the questions of a request; see `Batcher.submit`."""
        kinds = {question.kind for question in questions if question.settings is not None}
        if not kinds <= self._compiled.keys():
            return self.first_queue.submit(questions)
        for kind in kinds:
            self._compiled.move_to_end(kind)
        return self.queue.submit(questions)

    def _group(self, question: Question) -> Hashable:
        return question.group

    def _answer_first(self, questions: Sequence[Question]) -> list[Answer]:
        with _use_device(*next(self._rotation)):
            answers = self.answer(questions)
        for question, answer in zip(questions, answers, strict=True):
            if answer is not BLANK:
                self._note_compiled(question.kind)
        return answers

    def _note_compiled(self, kind: Hashable) -> None:
        self._compiled[kind] = None
        if len(self._compiled) > MOST_SEARCHES:
            self._compiled.popitem(last=False)

    def warm_up(self, seconds: float = WARM_UP_SECONDS) -> None:
        """Decodes random inputs on each device, single ones and full batches, so that requests find compiled functions.

        After `seconds`, no further size is started; at least one runs on each device.
        """
        start = time.monotonic()
        for done, (count, length) in enumerate((n, m) for n in (1, self.limits.most_texts) for m in WARM_UP_LENGTHS):
            if done and time.monotonic() - start >= seconds:
                break
            for device in self._devices:
                with _use_device(*device):
                    self._decode_made_up(count, length)
        log.info("model %s is warmed up, %.1f s", self.name, time.monotonic() - start)

    def warm_up_others(self) -> None:
        """Has the other searches that requests usually ask for compiled, without waiting for that."""
        for n_best, changes in OTHER_SEARCHES:
            with contextlib.suppress(UserError, FullError):  # the model has no such search, or there is no room
                self.first_queue.submit(self.questions(Query(texts=["."], n_best=n_best, changes=changes)))

    def _decode_made_up(self, count: int, length: int) -> None:
        """Decodes `count` random inputs of `length` ids."""
        spec = self.translator.facts.spec
        size = (count, min(length, self.translator.longest_input))
        ids = np.random.default_rng(0).integers(EOS_ID + 1, (spec.inputs or spec.targets).vocab_size, size)
        self.translator.warm_up(ids.tolist(), self.n_best)
        self._note_compiled(Question("", settings=self.translator.settings(self.n_best)[0]).kind)

    def _answer_on_free_device(self, questions: Sequence[Question]) -> list[Answer]:
        device = self._free.get()
        try:
            with _use_device(*device):
                return self.answer(questions)
        finally:
            self._free.put(device)

    def _own_rows(self, n_best: int) -> int:
        return self.translator.settings(n_best)[0].rows_per_sentence

    @property
    def can_stream(self) -> bool:
        """Whether partial answers are available during the search."""
        if not self.translator.is_built:
            return False
        from t2t.inference.search_steps import has_partial_outputs

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
        """Whether outputs continue the given texts, as in language models."""
        return not self.translator.has_inputs

    def prompt(self, text: str) -> str:
        """Returns the text that the outputs begin with: `text` as it was read, or empty if the model has inputs."""
        if not self.continues:
            return ""
        (ids,) = self.translator.encode([text])
        return self.translator.problem.decode_target(cut_row(ids, self.translator.longest_input, has_inputs=False))

    def questions(self, query: Query) -> list[Question]:
        """Returns the questions of a request; samples without a seed differ each time.

        Raises:
            ContextLengthError: a text is too long.
            UserError: see `check_changes`; or the search cannot guarantee this length or these constraints.
        """
        n_best, changes, terms = query.n_best or self.n_best, self._changes(query), query.terms
        settings = check_changes(self.translator, n_best, changes, self.most_rows)
        if terms is not None:
            self.translator.check_terms(terms, n_best, **changes)
        self._check_lengths(query, is_long_output=settings.min_length > 0 and terms is None, changes=changes)
        seeds: Sequence[int] = range(len(query.texts))
        if settings.method == SAMPLE and SEED not in changes:
            seeds = [secrets.randbits(31) for _ in query.texts]
        limits: list[dict[str, Any]] = [{}] * len(query.texts)
        if query.most_tokens is not None:
            limits = [limit_tokens(self.translator, text, changes, query.most_tokens) for text in query.texts]
        keys = [tuple(sorted({**changes, **limit}.items())) for limit in limits]
        how: dict[str, Any] = {"terms": terms, "settings": settings, "stops": tuple(query.stops)}
        return [
            Question(text, n_best, key, seed, **how) for text, key, seed in zip(query.texts, keys, seeds, strict=True)
        ]

    def _changes(self, query: Query) -> dict[str, Any]:
        """Returns the search settings to change."""
        changes = dict(query.changes)
        if query.is_openai:
            own = self.translator.hparams if self.translator else None
            method = changes.get("decode_method", own.decode_method if own else BEAM)
            if method != SAMPLE:
                changes.pop(SEED, None)
            n = query.n_best or 1
            if own and method == BEAM and n > own.beam_size and self.translator.facts.autoregressive:
                changes.setdefault("beam_size", n)
        return changes

    def _check_lengths(self, query: Query, is_long_output: bool, changes: Mapping[str, Any]) -> None:
        """Checks the lengths of texts, and of their outputs if they must be long; blank texts have any length.

        Here and not in `answer`, where texts of other requests are in the batch.

        Raises:
            ContextLengthError: a text is too long, and not to be truncated.
            UserError: `min_output_length` is above the longest output.
        """
        truncate, texts = query.truncate is not False, query.texts
        numbered = {number: text for number, text in enumerate(texts, start=1) if not self.translator.is_blank(text)}
        if (truncate and not is_long_output) or not numbered:
            return
        given = list(numbered.values())
        rows, longest = self.translator.encode(given), self.translator.longest_input
        for number, ids in zip(numbered, rows, strict=True):
            if len(ids) > longest and not truncate:
                raise ContextLengthError(
                    f"text {number} of {len(texts)} has {len(ids) + 1:,} ids with end of sequence, more than "
                    f"{self.translator.most_ids}",
                    "send less at once, or ask for truncate to have it cut",
                )
        if is_long_output:
            self.translator.check_min_length(self.translator.request(rows, sources=given, **changes))

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Returns the answers to questions of one group, which are searched in one batch."""
        found = [BLANK] * len(questions)
        numbers = [i for i, question in enumerate(questions) if not self.translator.is_blank(question.text)]
        if not numbers:
            return found
        texts, seeds = zip(*((questions[i].text, questions[i].sentence_seed) for i in numbers), strict=True)
        n_best, how = questions[0].n_best, dict(questions[0].changes)
        if len(questions) == 1 and questions[0].stops and self.can_stream and not how.get("token_scores"):
            # The search ends once nothing more is read; the last partial answer is complete.
            return [partial.answer for partial in self._partial_answers(questions[0]) if partial.answer]
        if questions[0].terms is not None:
            how["constraints"] = [questions[i].terms for i in numbers]
        if len({questions[i].changes for i in numbers}) > 1:  # in how they are sampled
            how["row_settings"] = [questions[i].settings for i in numbers]
        ids = self.translator.encode(texts)
        outputs = self.translator.translate_ids(ids, n_best, seeds=seeds, sources=texts, **how)
        for i, row, output in zip(numbers, ids, outputs, strict=True):
            found[i] = self._answer_of(output, len(row))
        return found

    def _answer_of(self, hypotheses: Sequence[Hypothesis], length: int) -> Answer:
        """Returns the answer with these outputs to a text of `length` ids."""
        read = min(length, self.translator.longest_input)
        written = count_written([len(one.ids) for one in hypotheses], read if self.continues else 0)
        return Answer(hypotheses, length > read, read, written)

    def stream(self, question: Question) -> Iterator[PartialAnswer]:
        """Yields the answer to a question after each step of its search; only where `can_stream`."""
        if self.translator.is_blank(question.text):
            yield PartialAnswer([""], BLANK)
            return
        with _use_device(*next(self._rotation)):
            yield from self._partial_answers(question)

    def _partial_answers(self, question: Question) -> Iterator[PartialAnswer]:
        from t2t.inference.search_steps import partial_outputs

        (ids,) = self.translator.encode([question.text])
        for texts, hypotheses in partial_outputs(
            self.translator,
            question.text,
            question.n_best,
            sentence_seed=question.sentence_seed,
            terms=question.terms,
            stops=question.stops,
            **dict(question.changes),
        ):
            yield PartialAnswer(texts, self._answer_of(hypotheses, len(ids)) if hypotheses else None)


def _use_device(number: int, name: str) -> contextlib.AbstractContextManager[None]:
    """Returns a context that runs operations on a device; without a name it does nothing, as there is only one."""
    if not name:
        return contextlib.nullcontext()
    from t2t.backends import backend

    return backend().use_device(number, name)


def check_changes(translator: Translator, n_best: int, changes: Mapping[str, Any], most_rows: int) -> SearchSettings:
    """Returns the search settings of a request.

    Args:
        translator: translator of the model.
        n_best: outputs for each text.
        changes: values to change, with names of `t2t.serving.requests.SEARCH_KEYS`.
        most_rows: largest beam, and largest number of samples per text.

    Raises:
        UserError: a wrong value, one beyond the limits of the server, or one without effect.
    """
    settings, hparams = translator.settings(n_best, **changes)
    if not translator.facts.autoregressive:
        if changes:
            raise RequestError(
                "the model answers at once and searches nothing", "leave it out", option=next(iter(changes))
            )
        return settings
    if settings.rows_per_sentence > most_rows:
        name = "n_best" if settings.rows_per_sentence == n_best else "beam_size"
        raise RequestError(
            f"the server searches at most {most_rows} for a text",
            "ask for that, or start it with a larger --request_beam",
            option=name,
            value=settings.rows_per_sentence,
        )
    if hparams.extra_length > translator.hparams.extra_length:
        raise RequestError(
            f"the server allows at most {translator.hparams.extra_length}",
            "ask for that, or start it with a larger --decode_extra_length",
            option="extra_length",
            value=hparams.extra_length,
        )
    check_read(hparams, changes)
    return settings


def limit_tokens(translator: Translator, text: str, changes: Mapping[str, Any], most: int) -> dict[str, int]:
    """Returns the change of `extra_length` that limits outputs for a text to `most` ids, end of sequence included.

    Raises:
        UserError: `most` is less than the input's length with all ids behind it, which the search always allows, or the
            model is not autoregressive.
    """
    if not translator.facts.autoregressive:
        raise RequestError("the model answers at once and writes no tokens", "leave it out", option="max_tokens")
    if translator.is_blank(text):
        return {}
    (ids,) = translator.encode([text])
    free = 0
    if translator.has_inputs:
        behind = 1 + len(translator.problem.languages.marks().input_end)
        free = min(len(ids), translator.longest_input) + behind
    if most < free:
        raise RequestError(
            f"an output may be as long as its input, here {free} tokens, end of sequence included",
            "ask for that or more, or leave it out",
            option="max_tokens",
            value=most,
        )
    return {"extra_length": min(most - free, changes.get("extra_length", translator.hparams.extra_length))}
