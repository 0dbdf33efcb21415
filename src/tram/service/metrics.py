"""Counters for Prometheus. Labels are endpoint and status only: no address, no key, no text."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tram.service.service import Service

Family = CounterMetricFamily | GaugeMetricFamily


class Metrics(Collector):
    """The metrics of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tram_requests", "Requests that were answered", ["endpoint", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "tram_request_seconds", "Time from a request to its answer", ["endpoint"], registry=self._registry
        )
        self._registry.register(self)

    def observe(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request; endpoint: the pattern of its path."""
        self._requests.labels(endpoint, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def collect(self) -> list[Family]:
        """Return what is known elsewhere, when it is asked for."""
        now = self._service.scheduler.statistics
        return [
            CounterMetricFamily("tram_sentences", "Sentences translated", now.sentences),
            CounterMetricFamily("tram_steps", "Batches translated", now.steps),
            GaugeMetricFamily("tram_waiting_requests", "Requests that wait for translations", now.waiting_requests),
            GaugeMetricFamily("tram_waiting_sentences", "Sentences that wait", now.waiting_sentences),
            GaugeMetricFamily("tram_sessions", "Document sessions", len(self._service.sessions)),
        ]

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)
