"""State of the service: models by name, limits of requests, queues."""

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from t2t.errors import UnknownNameError, did_you_mean
from t2t.serving.batcher import Batcher, FullError
from t2t.serving.models import Answer, ServedModel

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

RETRY_S = 1
"""Value of the Retry-After header, in seconds."""

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Limits of each request."""

    most_bytes: int = 1 << 20
    """Of a body."""
    most_texts: int = 128
    """Of a request."""
    body_seconds: float = 20.0
    """From the headers to the end of the body."""
    seconds: float = 60.0
    """From the whole body to the answer."""
    waiting_jobs: int = 256
    """Most jobs in their queue, see `Service.run`."""


class Measures:
    """Metrics of one service for Prometheus."""

    def __init__(self):
        self._registry = CollectorRegistry()
        common = {"registry": self._registry, "namespace": "t2t"}
        self._requests = Counter(
            "requests", "Requests answered, by what was asked and status.", ["asked", "status"], **common
        )
        self._seconds = Histogram(
            "request_seconds", "Seconds from the whole body to the answer.", ["asked"], buckets=_BUCKETS_S, **common
        )
        self.texts = Counter("texts", "Texts answered.", ["model"], **common)
        self.waiting_texts = Gauge("waiting_texts", "Texts in the queue.", ["model"], **common)
        self.waiting_jobs = Gauge("waiting_jobs", "Figures and curves in their queue.", **common)

    def note_request(self, asked: str, status: int, seconds: float) -> None:
        """Counts a request."""
        self._requests.labels(asked, str(status)).inc()
        self._seconds.labels(asked).observe(seconds)

    def page(self) -> bytes:
        """Returns all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class Service:
    """Models by unique name, with the limits and queues of all requests; the first one is the default."""

    def __init__(self, models: Sequence[ServedModel], limits: RequestLimits | None = None):
        self.models = {model.name: model for model in models}
        self.limits = limits or RequestLimits()
        self.measures = Measures()
        for model in models:
            self.measures.waiting_texts.labels(model.name).set_function(
                functools.partial(getattr, model.queue, "waiting")
            )
        room = self.limits.waiting_jobs
        self._jobs = Batcher(lambda jobs: [job() for job in jobs], most=1, wait_s=0.0, room=room)
        self.measures.waiting_jobs.set_function(lambda: self._jobs.waiting)

    def model(self, name: Any) -> ServedModel:
        """Returns the model of a name, the first one for None; raises UnknownNameError."""
        if name is None:
            return next(iter(self.models.values()))
        if not isinstance(name, str) or name not in self.models:
            near = did_you_mean(str(name), self.models)
            raise UnknownNameError(f"model {name!r} is not served; {near}there are {', '.join(self.models)}")
        return self.models[name]

    async def body(self, request: Request) -> bytes:
        """Returns the body of a request; raises HTTPException if it is too large or too slow."""
        limits = self.limits
        too_large = HTTPException(413, f"the body is larger than {limits.most_bytes:,} bytes; send less at once")
        if int(request.headers.get("content-length", 0)) > limits.most_bytes:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > limits.most_bytes:
                        raise too_large
        except TimeoutError:
            reason = f"the body did not arrive within {limits.body_seconds:g} seconds; send less at once"
            raise HTTPException(408, reason, headers={"Connection": "close"}) from None
        return bytes(body)

    async def answers(
        self,
        model: ServedModel,
        texts: Sequence[str],
        n_best: int | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> list[Answer]:
        """Returns a model's answers.

        Args:
            model: which.
            texts: at least one.
            n_best: outputs for each text; None for what the model gives by itself.
            changes: of the search, see `t2t.serving.search_changes`.

        Raises:
            UserError: the model cannot be searched so.
            HTTPException: too many texts, a full queue or no answer in time.
        """
        most = min(self.limits.most_texts, model.queue.room)
        if len(texts) > most:
            raise HTTPException(413, f"{len(texts)} texts, at most {most}; send fewer at once")
        found = await self._results(model.queue, model.questions(texts, n_best, changes))
        self.measures.texts.labels(model.name).inc(len(texts))
        return found

    async def run(self, job: Callable[[], Result]) -> Result:
        """Runs a function in the one thread of jobs; raises HTTPException for a full queue or no result in time."""
        (result,) = await self._results(self._jobs, [job])
        return result

    async def _results(self, queue: Batcher, items: Sequence[Any]) -> list[Any]:
        try:
            futures = queue.submit(items)
        except FullError as error:
            retry = {"Retry-After": str(RETRY_S)}
            raise HTTPException(429, f"too much is waiting: {error}; ask again later", headers=retry) from None
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await asyncio.gather(*map(asyncio.wrap_future, futures))
        except TimeoutError:
            raise HTTPException(504, f"no answer within {self.limits.seconds:g} seconds; ask for less") from None

    def close(self) -> None:
        """Drains and closes the queues."""
        for queue in (*(model.queue for model in self.models.values()), self._jobs):
            queue.close()
