"""The engine of the service: models by name, limits of requests, answers, streams, jobs and their counts.

`await engine.translate(model, query)` gives answers, `engine.stream(model, query)` an iterator of partial ones. Streams
and jobs run in threads, up to a fixed number; others wait.
"""

import asyncio
import collections
import contextlib
import dataclasses
import functools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.concurrency import run_in_threadpool

from t2t.errors import MachineError, T2TError, UnknownNameError, UserError, did_you_mean, one_line
from t2t.serving.models import (
    Answer,
    Batcher,
    ContextLengthError,
    EndedError,
    PartialAnswer,
    Question,
    RefusedError,
    ServedModel,
)
from t2t.serving.requests import Query, RequestError

log = logging.getLogger("t2t")

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

CLOSE_S = 3.0
"""Time limit for what is still running when a service is closed."""
MOST_LATE = 8
"""Largest number of jobs that are kept for a later request."""

Result = TypeVar("Result")


class LateError(RefusedError):
    """The time limit of a request is exceeded."""

    status = 504


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
    """Capacity of each of the two job queues, see `ServingEngine.run` and `.read`, and of that of streamed answers."""
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
        self.model_step = Gauge("model_step", "Step of the checkpoint that is served.", ["model"], **common)
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


class ServingEngine:
    """Models by unique name, with the limits and queues of all requests; the first model is the default."""

    def __init__(self, models: Sequence[ServedModel], limits: RequestLimits | None = None):
        self.models = {model.name: model for model in models}
        self.limits = limits or RequestLimits()
        self.measures = Measures()
        for name in self.models:
            self.measures.waiting_texts.labels(name).set_function(lambda name=name: self.models[name].waiting)
            self.measures.model_step.labels(name).set_function(lambda name=name: self.models[name].step)
        room = self.limits.waiting_jobs
        self._jobs, self._reads, self._loads = (
            Batcher(lambda jobs: [job() for job in jobs], most=1, wait_s=0.0, room=room) for _ in range(3)
        )
        self._users: collections.Counter[ServedModel] = collections.Counter()
        """Requests that each model is answering."""
        self._loading: dict[str, asyncio.Task[bool]] = {}
        """Loads of newer checkpoints, by the name of the model."""
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

    def model(self, name: str | None) -> ServedModel:
        """Returns the model with a name, the first one for None; raises UnknownNameError."""
        if name is None and self.models:
            return next(iter(self.models.values()))
        if not self.models:
            raise UnknownNameError("no model is served here all the time", "name runs with --output_dir")
        if name not in self.models:
            near = did_you_mean(str(name), self.models)
            raise UnknownNameError(f"model {name!r:.200} is not served", f"{near}there are {', '.join(self.models)}")
        return self.models[name]

    # === Texts to texts ===

    async def translate(self, model: ServedModel, query: Query) -> list[Answer]:
        """Returns a model's answers, in the order of the texts.

        Raises:
            ContextLengthError: a text is too long and may not be truncated.
            UserError: settings that the model does not support.
            RefusedError: too many texts, a full queue, or the time limit is exceeded.
        """
        with self._use(model) as model:
            return await self._answers(model, await self._questions(model, query))

    async def stream(self, model: ServedModel, query: Query) -> AsyncIterator[PartialAnswer]:
        """Yields partial answers during the search, or only the complete one if the model cannot stream.

        Raises:
            RequestError: several texts.
            RefusedError: too many streams, a full queue, or the time limit is exceeded.
        """
        if len(query.texts) > 1:
            raise RequestError(
                f"{len(query.texts)} texts are requested, and one is written at a time",
                "send one, or ask without stream",
                option="stream",
            )
        with self._use(model) as model:
            (question,) = await self._questions(model, query)
            if not model.can_stream:
                (answer,) = await self._answers(model, [question])
                yield PartialAnswer([one.text for one in answer.hypotheses], answer)
                return
            async for partial in self.stream_items(lambda: model.stream(question)):
                if partial.answer:
                    self.measures.note_answers(model.name, [partial.answer])
                yield partial

    async def _questions(self, model: ServedModel, query: Query) -> list[Question]:
        """Returns the questions of a request; in a thread, since it takes time if texts or constraints are long."""
        most = min(self.limits.most_texts, model.queue.room)
        if len(query.texts) > most:
            raise RefusedError(f"{len(query.texts)} texts, at most {most}; send fewer at once")
        if query.truncate is None:
            query = dataclasses.replace(query, truncate=self.limits.truncate)
        return await run_in_threadpool(model.questions, query)

    async def _answers(self, model: ServedModel, questions: Sequence[Question]) -> list[Answer]:
        found: list[Answer] = await self._results(model.submit, questions)
        for number, (question, answer) in enumerate(zip(questions, found, strict=True), start=1):
            if answer.cut and not question.truncate:
                raise ContextLengthError(
                    f"text {number} of {len(questions)} is longer than model {model.name!r} reads",
                    "send less at once, or ask for truncate to have it cut",
                )
        self.measures.note_answers(model.name, found)
        return found

    # === Newer checkpoints ===

    async def reload(self, model: ServedModel) -> bool:
        """Serves the newest checkpoint of a model; returns whether it is another than before.

        It is loaded and warmed up aside; until then, and for requests that are being answered, the old one is used.

        Raises:
            UserError: the model is an export.
            MachineError: the checkpoint cannot be loaded; the old one stays in service.
            RefusedError: the time limit is exceeded; loading goes on.
        """
        name = model.name
        if model.source is None:
            raise UserError(f"model {name!r} is an export, which has no newer checkpoint", "serve its run")
        if name not in self._loading:
            self._loading[name] = asyncio.create_task(self._load_newer(model))
            self._loading[name].add_done_callback(lambda task: self._loading.pop(name))
        try:
            async with self.within(self.limits.seconds):
                return await asyncio.shield(self._loading[name])
        except TimeoutError:
            raise self._late_error() from None

    async def _load_newer(self, model: ServedModel) -> bool:
        job = functools.partial(_load_newer, model)
        try:
            newer = await asyncio.wrap_future(self._loads.submit([job])[0])
        except Exception as error:
            reason = one_line(error if isinstance(error, T2TError) else f"{type(error).__name__}: {error}")
            log.warning(
                "model %s: its newest checkpoint cannot be loaded, and step %d stays in service: %s",
                model.name, model.step, reason, exc_info=None if isinstance(error, T2TError) else error,
            )  # fmt: skip
            raise MachineError(
                f"model {model.name!r}: its newest checkpoint cannot be loaded ({reason}); step {model.step} stays in "
                "service",
                "ask again when there is another",
            ) from error
        if newer is None:
            return False
        log.info("model %s: step %d is served instead of %d", model.name, newer.step, model.step)
        self.models[model.name] = newer
        self._end_if_unused(model)
        return True

    async def watch(self, seconds: float) -> None:
        """Serves newer checkpoints of all models; looks for them again after some seconds."""
        tried = {name: model.stamp for name, model in self.models.items()}
        while True:
            await asyncio.sleep(seconds)
            for name, model in list(self.models.items()):
                with contextlib.suppress(MachineError, RefusedError, UserError, OSError):  # is in the log
                    stamp = await self.read(model.source.stamp) if model.source else tried[name]
                    if stamp != tried[name]:
                        tried[name] = stamp
                        await self.reload(model)

    @contextlib.contextmanager
    def _use(self, model: ServedModel) -> Iterator[ServedModel]:
        """Context in which a model stays open although a newer one takes its place; gives that if it has already."""
        if not self._users[model]:
            model = self.models.get(model.name, model)
        self._users[model] += 1
        try:
            yield model
        finally:
            self._users[model] -= 1
            self._end_if_unused(model)

    def _end_if_unused(self, model: ServedModel) -> None:
        if not self._users[model]:
            del self._users[model]
            if self.models.get(model.name) is not model:
                threading.Thread(target=model.close, name="closing", daemon=True).start()

    # === Jobs ===

    async def stream_items(self, items: Callable[[], Iterator[Result]]) -> AsyncIterator[Result]:
        """Yields the items of an iterator that runs in a thread, see `Streams.run`; raises RefusedError."""
        try:
            async for item in self.streams.run(items, self.limits.seconds):
                yield item
        except EndedError:
            self.unanswered += 1
            raise
        except TimeoutError:
            raise self._late_error() from None

    async def run(self, job: Callable[[], Result], key: Hashable = None) -> Result:
        """Runs a function in the job thread; raises RefusedError for a full queue or an exceeded time limit.

        A job that runs when the time is over goes on: the next request with the same key gets its result.
        """
        late, futures = self._late.pop(key, None), []

        def submit(jobs: Sequence[Any]) -> list[Future]:
            futures.extend([late] if late else self._jobs.submit(jobs))
            return futures

        try:
            (result,) = await self._results(submit, [job])
        except RefusedError:
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
            async with self.within(self.limits.seconds):
                return await asyncio.gather(*map(asyncio.wrap_future, submit(items)))
        except TimeoutError:
            raise self._late_error() from None

    @contextlib.asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Context that raises TimeoutError after a time, and EndedError when the service stops."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(0.0 if self._is_stopped else seconds) as limit:
                    self._time_limits.add(limit)
                    stack.callback(self._time_limits.discard, limit)
                    yield
            except (TimeoutError, EndedError) as error:
                if isinstance(error, TimeoutError) and not self._is_stopped:
                    raise
                self.unanswered += 1
                raise EndedError from None

    def _late_error(self) -> LateError:
        return LateError(f"no answer within {self.limits.seconds:g} seconds; ask for less")

    # === The end ===

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
        queues: list[ServedModel | Batcher | Streams] = [
            *{*self.models.values(), *self._users}, self._jobs, self._reads, self._loads, self.streams,
        ]  # fmt: skip
        self.is_closed = all([queue.close(max(0.0, end - time.monotonic())) for queue in queues])
        if not self.is_closed:
            log.warning("closed while work was running, after %g s; it is not finished", seconds)


def _load_newer(model: ServedModel) -> ServedModel | None:
    """Returns a model of the newest checkpoint, warmed up; None if that is the same."""
    source = model.source
    assert source is not None
    stamp = source.stamp()
    if stamp == model.stamp:
        return None
    newer = source.load()
    newer.source, newer.stamp = source, stamp
    if newer.fingerprint == model.fingerprint and newer.step == model.step:  # the newest is damaged
        newer.close()
        return None
    newer.warm_up()
    newer.warm_up_others()
    return newer


# === Streams ===

_END = object()


class Streams:
    """Runs iterators in threads for coroutines that consume their items.

    Args:
        most: largest number of concurrent iterators.
        room: how many more may wait.
    """

    def __init__(self, most: int, room: int):
        how: dict[str, Any] = {"most": 1, "wait_s": 0.0, "room": room}
        self._queue = Batcher(lambda jobs: [job() for job in jobs], threads=most, **how)
        self._open: dict[threading.Event, Callable[[Any], None]] = {}
        """Of each stream with a consumer: what is set when it stops, and the function that sends it an item."""
        self._running: set[threading.Event] = set()

    @property
    def running(self) -> int:
        """Number of iterators that have started and not ended."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Number of iterators that wait."""
        return self._queue.waiting

    async def run(self, items: Callable[[], Iterator[Result]], seconds: float) -> AsyncIterator[Result]:
        """Yields the items of an iterator as they arrive; stops the iterator when the consumer is closed.

        Args:
            items: returns the iterator; called in the thread.
            seconds: time limit for all items, from the call on.

        Raises:
            EndedError: the streams are stopped or closed.
            FullError: too many iterators wait.
            TimeoutError: the time limit is exceeded.
        """
        loop, end, stopped = asyncio.get_running_loop(), time.monotonic() + seconds, threading.Event()
        arrived: asyncio.Queue[Any] = asyncio.Queue()

        def send(item: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop has ended, so there is no consumer
                loop.call_soon_threadsafe(arrived.put_nowait, item)

        self._queue.submit([functools.partial(self._send_all, items, send, stopped)])
        self._open[stopped] = send
        try:
            while (item := await asyncio.wait_for(arrived.get(), end - time.monotonic())) is not _END:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()
            self._open.pop(stopped, None)

    def _send_all(
        self, items: Callable[[], Iterator[Any]], send: Callable[[Any], None], stopped: threading.Event
    ) -> None:
        """Sends all items and then the end, until the stream is stopped."""
        if stopped.is_set():
            return
        self._running.add(stopped)
        try:
            with contextlib.closing(items()) as iterator:  # type: ignore[type-var]  # a generator
                for item in iterator:
                    if stopped.is_set():
                        return
                    send(item)
            send(_END)
        except BaseException as error:  # goes to the consumer
            send(error)
        finally:
            self._running.discard(stopped)

    def stop(self) -> None:
        """Ends all streams for their consumers, with an EndedError, and stops the iterators after their next items."""
        for stopped, send in list(self._open.items()):
            stopped.set()
            send(EndedError())

    def close(self, seconds: float | None = None) -> bool:
        """Does as `stop`, takes no more, and joins the threads, see `Batcher.close`."""
        self.stop()
        return self._queue.close(seconds)
