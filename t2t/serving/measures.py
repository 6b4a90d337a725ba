"""Metrics of a service for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Measures:
    """Counters of one service."""

    def __init__(self):
        self._registry = CollectorRegistry()
        common = {"registry": self._registry, "namespace": "t2t"}
        self._requests = Counter(
            "requests", "Requests answered, by what was asked and status.", ["asked", "status"], **common
        )
        self._seconds = Histogram(
            "request_seconds", "Seconds from the whole body to the answer.", ["asked"], buckets=SECONDS, **common
        )
        self._texts = Counter("texts", "Texts answered.", ["model"], **common)
        self._waiting = Gauge("waiting_texts", "Texts in the queue.", ["model"], **common)
        self._waiting_jobs = Gauge("waiting_jobs", "Figures and curves in their queue.", **common)

    def watch_queue(self, model: str, waiting: Callable[[], int]) -> None:
        """Reports the length of a model's queue."""
        self._waiting.labels(model).set_function(waiting)

    def watch_jobs(self, waiting: Callable[[], int]) -> None:
        """Reports the length of the queue of jobs."""
        self._waiting_jobs.set_function(waiting)

    def note_request(self, asked: str, status: int, seconds: float) -> None:
        """Counts a request."""
        self._requests.labels(asked, str(status)).inc()
        self._seconds.labels(asked).observe(seconds)

    def note_texts(self, model: str, count: int) -> None:
        """Counts texts that were answered."""
        self._texts.labels(model).inc(count)

    def page(self) -> bytes:
        """Returns all metrics in Prometheus's text format."""
        return generate_latest(self._registry)
