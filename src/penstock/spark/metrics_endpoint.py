"""Metrics of a run for Prometheus."""

import threading
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.core import metrics as core
from penstock.core.capacity import Capacity, Knob
from penstock.core.control_quality import resources
from penstock.core.controller import Step
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.page.address import parse_address

#: A value of a metric, with its labels.
Sample = tuple[str, dict[str, str], float]

#: Each metric with its kind and meaning; docs/autoscaling.md has the same table.
METRICS = {
    "arrival_rate": ("gauge", "Rows a second that arrived"),
    "backlog_rows": ("gauge", "Rows waiting beyond the normal wait for the next trigger"),
    "utilisation": ("gauge", "Load over capacity; above 1 the query falls behind"),
    "response_seconds": ("gauge", "Arrival to committed result, by quantile (mean where there is none)"),
    "target_seconds": ("gauge", "The response that is asked for"),
    "batch_seconds": ("gauge", "Duration of the last micro-batch"),
    "capacity": ("gauge", "Executors, or CPU share of a query or stage: planned, requested, observed"),
    "workers": ("gauge", "Workers of a stage of a query or flow: planned, requested, observed"),
    "answer_lag_seconds": ("gauge", "End of a window plus the slack to its committed answer"),
    "bound": ("gauge", "Least and most of a knob, everywhere or at one query or stage"),
    "core_seconds_total": ("counter", "Cores held, integrated over time"),
    "rows_total": ("counter", "Rows processed"),
    "decisions_total": ("counter", "Decisions by what came of them"),
    "changes_total": ("counter", "Changes made, by knob and direction"),
    "reconfiguration_seconds": ("gauge", "How long the last change took until its executors worked"),
    "overhead_cores": ("gauge", "Share of a core that the autoscaler itself uses in the driver"),
    "thinking_cores": (
        "gauge",
        "Cores that a policy in a process of its own (Autopilot, Mead) took since the last step",
    ),
}


class MetricsEndpoint(Collector):
    """Serves ``http://HOST:PORT/metrics`` from what a controller saw and decided.

    Parameters
    ----------
    address
        ``HOST:PORT``; port 0 takes a free one, see ``address`` afterwards.
    """

    def __init__(self, address: str, guards: Guards, target: float | None = None) -> None:
        self._host, self._port = parse_address(address, "metrics")
        self._guards, self._target = guards, target
        self._lock = threading.Lock()
        self._observation: Observation | None = None
        self._decisions: Counter[str] = Counter()
        self._changes: Counter[tuple[str, str]] = Counter()
        self._rows: Counter[str] = Counter()
        self._core_seconds = 0.0
        self._overhead = 0.0
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server: WSGIServer
            self._server, self._thread = start_http_server(self._port, self._host, registry)
        except (OSError, OverflowError) as error:
            raise PenstockError(
                f"Metrics cannot be served on {address} ({error}); choose another port, or 0 for a free one."
            ) from None

    @property
    def address(self) -> str:
        """Host and port it really has."""
        return f"{self._host}:{self._server.server_port}"

    def close(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(timeout=10)
        self._server.server_close()

    def observed(self, observation: Observation, overhead: float = 0.0) -> None:
        """Take an observation, and the share of a core that the autoscaler has used so far."""
        with self._lock:
            self._observation, self._overhead = observation, overhead
            for stage in observation.stages:
                self._rows[stage.name] += int(stage.tuples_in) if isfinite(stage.tuples_in) else 0
            self._core_seconds += resources(observation) * observation.period

    def decided(self, step: Step) -> None:
        """Take the outcome of a step."""
        with self._lock:
            self._decisions[outcome(step)] += 1
            for change in step.applied.changes if step.applied else ():
                before = step.observation.value(change.knob, change.where)
                if isinstance(before, int | float):
                    self._changes[change.knob.value, "up" if change.number > before else "down"] += 1

    def collect(self) -> Iterator[Metric]:
        """All metrics, as Prometheus' client asks for them."""
        with self._lock:
            samples = list(self._samples())
        families: dict[str, Metric] = {}
        for name, labels, value in samples:
            if name not in families:
                kind, meaning = METRICS[name]
                made = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
                families[name] = made(f"penstock_{name}", f"{meaning}.", labels=tuple(labels))
            family = families[name]
            assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
            family.add_metric(tuple(labels.values()), value)
        yield from families.values()

    def _samples(self) -> Iterator[Sample]:
        yield "overhead_cores", {}, self._overhead
        yield "core_seconds_total", {}, self._core_seconds
        if self._target is not None:
            yield "target_seconds", {}, self._target
        for reason, count in self._decisions.items():
            yield "decisions_total", {"reason": reason}, count
        for (knob, direction), count in self._changes.items():
            yield "changes_total", {"knob": knob, "direction": direction}, count
        for query, rows in self._rows.items():
            yield "rows_total", {"query": query}, rows
        for bound in self._guards.bounds:
            if bound.knob is not Knob.WORKERS:
                labels = {"knob": bound.knob.value, "query": bound.where}
                yield "bound", {**labels, "side": "least"}, bound.low
                yield "bound", {**labels, "side": "most"}, bound.high
        if self._observation is not None:
            if self._observation.executors is not None:
                yield from _capacity(Knob.EXECUTORS, "", self._observation.executors)
            thinking = self._observation.measure(core.Metric.THINKING)
            if isfinite(thinking):
                yield "thinking_cores", {}, thinking
            lag = self._observation.measure(core.Metric.ANSWER_LAG)
            if isfinite(lag):
                yield "answer_lag_seconds", {}, lag
            for stage in self._observation.stages:
                yield from _stage(stage)
                if self._observation.executors is None:
                    yield from _workers(stage)


def outcome(step: Step) -> str:
    """What came of a step, in one word: the reasons in full stand in the journal."""
    if step.mode:
        return step.mode
    if not step.wanted.changes:
        return "keep"
    if not step.decision.changes:
        return "held"
    if step.applied is None or not step.applied.changes:
        return "refused"
    change = step.applied.changes[0]
    before = step.observation.value(change.knob, change.where)
    if not isinstance(before, int | float):
        return "change"
    return "grow" if change.number > before else "shrink"


def _stage(stage: StageObservation) -> Iterator[Sample]:
    labels = {"query": stage.name}
    plain = {
        "arrival_rate": stage.arrival_rate,
        "backlog_rows": stage.backlog,
        "utilisation": stage.utilisation,
        "batch_seconds": stage.batch_duration,
        "reconfiguration_seconds": stage.last_change.pause,
    }
    for name, value in plain.items():
        if isfinite(value):
            yield name, labels, value
    yield from _latency(stage.latency, labels)
    if stage.cpu_share is not None:
        yield from _capacity(Knob.CPU_SHARE, stage.name, stage.cpu_share)


def _workers(stage: StageObservation) -> Iterator[Sample]:
    for state in ("planned", "requested", "observed"):
        yield "workers", {"query": stage.name, "state": state}, float(getattr(stage.workers, state))


def _latency(latency: Latency, labels: dict[str, str]) -> Iterator[Sample]:
    values = {"mean": latency.mean, "0.5": latency.p50, "0.95": latency.p95, "0.99": latency.p99}
    for quantile, value in values.items():
        if isfinite(value):
            yield "response_seconds", {**labels, "quantile": quantile}, value


def _capacity(knob: Knob, where: str, capacity: Capacity) -> Iterator[Sample]:
    for state in ("planned", "requested", "observed"):
        labels = {"knob": knob.value, "query": where, "state": state}
        yield "capacity", labels, float(getattr(capacity, state))
