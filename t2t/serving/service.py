"""State of the service: models by name, request limits, queues."""

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from t2t.errors import UnknownNameError, did_you_mean
from t2t.serving.batcher import Batcher, EndedError, FullError
from t2t.serving.errors import ContextLengthError
from t2t.serving.models import Answer, PartialAnswer, Question, ServedModel
from t2t.serving.streams import Streams

log = logging.getLogger("t2t")

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

CLOSE_S = 3.0
"""Time limit for what is still running when a service is closed."""
MOST_LATE = 8
"""Largest number of jobs that are kept for a later request."""
RETRY_S = 1
"""Value of the Retry-After header, in seconds."""

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Limits of each request."""

    most_bytes: int = 1 << 20
    """Largest body, in bytes."""
    most_texts: int = 128
    """Largest number of texts."""
    body_seconds: float = 20.0
    """Time limit from the headers to the end of the body."""
    seconds: float = 60.0
    """Time limit from the complete body to the answer."""
    waiting_jobs: int = 256
    """Capacity of each of the two job queues, see `Service.run` and `Service.read`, and of that of streamed answers."""
    streams: int = 4
    """Largest number of concurrent streamed answers; others wait."""
    truncate: bool = False
    """Whether texts that are too long are truncated, not refused, where a request does not say."""


class Measures:
    """Prometheus metrics of a service."""

    def __init__(self):
        self._registry = CollectorRegistry()
        common = {"registry": self._registry, "namespace": "t2t"}
        self._requests = Counter("requests", "Requests answered, by path and status.", ["path", "status"], **common)
        what = "Seconds from the head of a request to its answer, or to the first event of a stream."
        self._seconds = Histogram("request_seconds", what, ["path"], buckets=_BUCKETS_S, **common)
        self._texts = Counter("texts", "Texts answered.", ["model"], **common)
        self._cut_texts = Counter("cut_texts", "Texts that were too long and were truncated.", ["model"], **common)
        what = "Outputs that end at their limit, before an end of sequence."
        self._cut_outputs = Counter("cut_outputs", what, ["model"], **common)
        self.waiting_texts = Gauge("waiting_texts", "Texts in the queue.", ["model"], **common)
        self.streams = Gauge("streams", "Answers that are being streamed.", **common)
        self.waiting_jobs = Gauge("waiting_jobs", "Figures and curves in their queues.", **common)

    def note_request(self, path: str, status: int, seconds: float) -> None:
        """Counts a request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def note_answers(self, model: str, answers: Sequence[Answer]) -> None:
        """Counts texts that were answered, and those of them and of their outputs that were cut."""
        self._texts.labels(model).inc(len(answers))
        self._cut_texts.labels(model).inc(sum(bool(answer.cut) for answer in answers))
        self._cut_outputs.labels(model).inc(sum(one.cut for answer in answers for one in answer.hypotheses))

    def page(self) -> bytes:
        """Returns all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class Service:
    """Models by unique name, with the limits and queues of all requests; the first model is the default."""

    def __init__(self, models: Sequence[ServedModel], limits: RequestLimits | None = None):
        self.models = {model.name: model for model in models}
        self.limits = limits or RequestLimits()
        self.measures = Measures()
        for model in models:
            self.measures.waiting_texts.labels(model.name).set_function(functools.partial(getattr, model, "waiting"))
        room = self.limits.waiting_jobs
        self._jobs, self._reads = (
            Batcher(lambda jobs: [job() for job in jobs], most=1, wait_s=0.0, room=room) for _ in range(2)
        )
        self.measures.waiting_jobs.set_function(lambda: self._jobs.waiting + self._reads.waiting)
        self.streams = Streams(self.limits.streams, room)
        self.measures.streams.set_function(lambda: self.streams.running)
        self._late: OrderedDict[Hashable, Future] = OrderedDict()
        """Jobs that took longer than a request, by key, see `run`."""
        self._time_limits: set[asyncio.Timeout] = set()
        """Of requests that are being answered."""
        self._is_stopped = False
        self.unanswered = 0
        """Number of requests that were cut off when the service ended."""
        self.is_closed = False
        """Whether the service was closed and no work is running."""

    def model(self, name: Any) -> ServedModel:
        """Returns the model with a name, the first one for None; raises UnknownNameError."""
        if name is None and self.models:
            return next(iter(self.models.values()))
        if not self.models:
            raise UnknownNameError("no model is served here all the time; name runs with --output_dir")
        if not isinstance(name, str) or name not in self.models:
            near = did_you_mean(str(name), self.models)
            raise UnknownNameError(f"model {name!r:.200} is not served; {near}there are {', '.join(self.models)}")
        return self.models[name]

    async def body(self, request: Request) -> bytes:
        """Returns the body of a request; raises HTTPException if it is too large or too slow."""
        limits = self.limits
        too_large = HTTPException(413, f"the body is larger than {limits.most_bytes:,} bytes; send less at once")
        if int(request.headers.get("content-length", 0)) > limits.most_bytes:
            raise too_large
        body = bytearray()
        try:
            async with self._within(limits.body_seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > limits.most_bytes:
                        raise too_large
        except TimeoutError:
            reason = f"the body did not arrive within {limits.body_seconds:g} seconds; send less at once"
            raise HTTPException(408, reason, headers={"Connection": "close"}) from None
        return bytes(body)

    def questions(
        self, model: ServedModel, texts: Sequence[str], *how: Any, truncate: bool | None = None
    ) -> list[Question]:
        """Returns the questions of a request; it takes time if texts are long or constraints large.

        Args:
            model: the model to ask.
            texts: at least one text.
            how: further arguments of `ServedModel.questions`.
            truncate: whether texts that are too long are truncated; None as the limits have it.

        Raises:
            ContextLengthError: a text that is too long is not to be truncated.
            UserError: settings that the model does not support.
            HTTPException: too many texts.
        """
        most = min(self.limits.most_texts, model.queue.room)
        if len(texts) > most:
            raise HTTPException(413, f"{len(texts)} texts, at most {most}; send fewer at once")
        return model.questions(texts, *how, truncate=self.limits.truncate if truncate is None else truncate)

    async def answers(self, model: ServedModel, questions: Sequence[Question]) -> list[Answer]:
        """Returns a model's answers.

        Raises:
            ContextLengthError: the answer tells that a text was cut that may not be truncated.
            HTTPException: the queue is full or the time limit is exceeded.
        """
        found: list[Answer] = await self._results(model.submit, questions)
        for number, (question, answer) in enumerate(zip(questions, found, strict=True), start=1):
            if answer.cut and not question.truncate:
                raise ContextLengthError(
                    f"text {number} of {len(questions)} is longer than model {model.name!r} reads; send less at once, "
                    f"or ask for truncate to have it cut"
                )
        self.measures.note_answers(model.name, found)
        return found

    async def stream(self, model: ServedModel, question: Question) -> AsyncIterator[PartialAnswer]:
        """Yields partial answers during the search, or only the complete one if the model cannot stream.

        Raises:
            HTTPException: too many streams, a full queue, or the time limit is exceeded.
        """
        if not model.can_stream:
            (answer,) = await self.answers(model, [question])
            yield PartialAnswer([one.text for one in answer.hypotheses], answer)
            return
        async for partial in self.stream_items(lambda: model.stream(question)):
            if partial.answer:
                self.measures.note_answers(model.name, [partial.answer])
            yield partial

    async def stream_items(self, items: Callable[[], Iterator[Result]]) -> AsyncIterator[Result]:
        """Yields the items of an iterator that runs in a thread; see `Streams.run`.

        Raises:
            HTTPException: too many streams, or the time limit is exceeded.
        """
        try:
            async for item in self.streams.run(items, self.limits.seconds):
                yield item
        except FullError as error:
            raise self._refused(error) from None
        except TimeoutError:
            raise self._too_late() from None

    async def run(self, job: Callable[[], Result], key: Hashable = None) -> Result:
        """Runs a function in the job thread; raises HTTPException for a full queue or an exceeded time limit.

        A job that runs when the time is over goes on: the next request with the same key gets its result.
        """
        late, futures = self._late.pop(key, None), []

        def submit(jobs: Sequence[Any]) -> list[Future]:
            futures.extend([late] if late else self._jobs.submit(jobs))
            return futures

        try:
            (result,) = await self._results(submit, [job])
        except HTTPException:
            if key is not None and futures and not futures[0].cancelled():
                self._late[key] = futures[0]
                if len(self._late) > MOST_LATE:
                    self._late.popitem(last=False)
            raise
        return result

    async def read(self, job: Callable[[], Result]) -> Result:
        """Does as `run` in a separate thread for functions that read files, so that they do not wait for models."""
        (result,) = await self._results(self._reads.submit, [job])
        return result

    async def _results(self, submit: Callable[[Sequence[Any]], list[Future]], items: Sequence[Any]) -> list[Any]:
        try:
            futures = submit(items)
        except FullError as error:
            raise self._refused(error) from None
        try:
            async with self._within(self.limits.seconds):
                return await asyncio.gather(*map(asyncio.wrap_future, futures))
        except TimeoutError:
            raise self._too_late() from None

    @contextlib.asynccontextmanager
    async def _within(self, seconds: float) -> AsyncIterator[None]:
        """Context that raises TimeoutError after a time, and HTTPException when the service stops."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(0.0 if self._is_stopped else seconds) as limit:
                    self._time_limits.add(limit)
                    stack.callback(self._time_limits.discard, limit)
                    yield
            except TimeoutError:
                if self._is_stopped:
                    raise self._refused(EndedError()) from None
                raise

    def _too_late(self) -> HTTPException:
        return HTTPException(504, f"no answer within {self.limits.seconds:g} seconds; ask for less")

    def _refused(self, error: FullError) -> HTTPException:
        retry = {"Retry-After": str(RETRY_S)}
        if isinstance(error, EndedError):
            self.unanswered += 1
            return HTTPException(503, f"{error}; ask again later", headers=retry)
        return HTTPException(429, f"too much is waiting: {error}; ask again later", headers=retry)

    def stop(self) -> None:
        """Ends all requests that are being answered, with status 503; called in the event loop."""
        self._is_stopped = True
        for limit in list(self._time_limits):
            if not limit.expired():
                limit.reschedule(0.0)
        self.streams.stop()

    def close(self, seconds: float = CLOSE_S) -> None:
        """Drains and closes the queues.

        Args:
            seconds: time limit for all queues. Who asked has waited for `--grace_seconds` before and is gone.
        """
        end = time.monotonic() + seconds
        own = ((model.queue, model.first_queue) for model in self.models.values())
        queues: list[Batcher | Streams] = [*itertools.chain.from_iterable(own), self._jobs, self._reads, self.streams]
        self.is_closed = all([queue.close(max(0.0, end - time.monotonic())) for queue in queues])
        if not self.is_closed:
            log.warning("closed while work was running, after %g s; it is not finished", seconds)
