"""Metrics of a service for Prometheus."""

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
