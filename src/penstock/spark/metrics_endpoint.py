"""Metrics of an autoscaler for Prometheus, served by the standard library."""

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isfinite

from penstock.core.capacity import Capacity, Knob
from penstock.core.control_quality import resources
from penstock.core.controller import Step
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.observation import Latency, Observation, StageObservation

_HELP = {
    "arrival_rate": ("gauge", "Rows a second that arrived"),
    "backlog_rows": ("gauge", "Rows waiting beyond the normal wait for the next trigger"),
    "utilisation": ("gauge", "Load over capacity; above 1 the query falls behind"),
    "response_seconds": ("gauge", "Arrival to committed result, by quantile (mean where there is none)"),
    "target_seconds": ("gauge", "The response that is asked for"),
    "batch_seconds": ("gauge", "Duration of the last micro-batch"),
    "capacity": ("gauge", "Executors or CPU share: planned, requested, observed"),
    "bound": ("gauge", "Least and most of a knob"),
    "core_seconds_total": ("counter", "Cores held, integrated over time"),
    "rows_total": ("counter", "Rows processed"),
    "decisions_total": ("counter", "Decisions by what came of them"),
    "changes_total": ("counter", "Changes made, by knob and direction"),
    "reconfiguration_seconds": ("gauge", "How long the last change took until its executors worked"),
    "overhead_cores": ("gauge", "Share of a core that the autoscaler itself uses in the driver"),
}


class MetricsEndpoint:
    """Serves ``http://HOST:PORT/metrics`` from what a controller saw and decided.

    Parameters
    ----------
    address
        ``HOST:PORT``; port 0 takes a free one, see ``address`` afterwards.
    """

    def __init__(self, address: str, guards: Guards, target: float | None = None) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise PenstockError(f"'{address}' is no address for metrics; write it like 127.0.0.1:9108.")
        self._guards, self._target = guards, target
        self._lock = threading.Lock()
        self._observation: Observation | None = None
        self._decisions: Counter[str] = Counter()
        self._changes: Counter[tuple[str, str]] = Counter()
        self._rows: Counter[str] = Counter()
        self._core_seconds = 0.0
        self._overhead = 0.0
        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), int(port)), self._handler())
        except (OSError, OverflowError) as error:
            raise PenstockError(
                f"Metrics cannot be served on {address} ({error}); choose another port, or 0 for a free one."
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="penstock-metrics", daemon=True
        )

    @property
    def address(self) -> str:
        """Host and port it really has."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
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

    def text(self) -> str:
        """The page that Prometheus reads."""
        with self._lock:
            samples = list(self._samples())
        lines, seen = [], set()
        for name, labels, value in sorted(samples, key=lambda s: s[0]):
            if name not in seen:
                seen.add(name)
                kind, meaning = _HELP[name]
                lines += [f"# HELP penstock_{name} {meaning}.", f"# TYPE penstock_{name} {kind}"]
            inner = ",".join(f'{k}="{_escaped(v)}"' for k, v in labels.items())
            lines.append(
                f"penstock_{name}{{{inner}}} {value:.10g}" if inner else f"penstock_{name} {value:.10g}"
            )
        return "\n".join(lines) + "\n"

    def _samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
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
                yield "bound", {"knob": bound.knob.value, "side": "least"}, bound.low
                yield "bound", {"knob": bound.knob.value, "side": "most"}, bound.high
        if self._observation is not None:
            if self._observation.executors is not None:
                yield from _capacity("executors", self._observation.executors)
            for stage in self._observation.stages:
                yield from _stage(stage)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0] not in ("/metrics", "/"):
                    self.send_error(404)
                    return
                page = endpoint.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, format: str, *args: object) -> None:
                """Keep the terminal quiet."""

        return Handler


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


def _stage(stage: StageObservation) -> Iterator[tuple[str, dict[str, str], float]]:
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
        yield from _capacity("cpu_share", stage.cpu_share)


def _latency(latency: Latency, labels: dict[str, str]) -> Iterator[tuple[str, dict[str, str], float]]:
    values = {"mean": latency.mean, "0.5": latency.p50, "0.95": latency.p95, "0.99": latency.p99}
    for quantile, value in values.items():
        if isfinite(value):
            yield "response_seconds", {**labels, "quantile": quantile}, value


def _capacity(knob: str, capacity: Capacity) -> Iterator[tuple[str, dict[str, str], float]]:
    for state in ("planned", "requested", "observed"):
        yield "capacity", {"knob": knob, "state": state}, float(getattr(capacity, state))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
