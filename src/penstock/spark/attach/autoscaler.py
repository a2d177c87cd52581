"""The autoscaler of a running application: a controller beside its queries, which never makes them wait."""

import atexit
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.capacity import Knob
from penstock.core.careful_journal import CarefulJournal, in_words
from penstock.core.controller import Controller, Step
from penstock.core.decision import Change
from penstock.core.deprecation import deprecated
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.journal import Journal
from penstock.core.metrics import Metric
from penstock.core.observation import Observation
from penstock.core.policy import AnyPolicy
from penstock.page.live import serve_page
from penstock.page.server import PageServer
from penstock.policies import Static
from penstock.policies.lag import HeldToLag
from penstock.policies.own_process import OwnProcess
from penstock.spark.actuators.cgroup import CgroupUnavailableError
from penstock.spark.actuators.executors import Executors
from penstock.spark.actuators.power import MachinePower, machine_power
from penstock.spark.attach.attached_plant import AttachedPlant
from penstock.spark.attach.executor_groups import ExecutorGroups, Ungrouped
from penstock.spark.attach.query_listener import Watcher
from penstock.spark.attach.settings import Settings, choose, default_guards
from penstock.spark.controlled import Controlled
from penstock.spark.metrics_endpoint import MetricsEndpoint
from penstock.spark.runtime.starting import JournalLike, open_journal

log = logging.getLogger(__name__)

#: Who changes the executors, shares or frequencies of each application, as long as somebody holds it.
_scaling: "WeakValueDictionary[str, Autoscaler]" = WeakValueDictionary()


class Autoscaler(Controlled):
    """Runs a policy on the queries of a session until they end.

    Whatever is wrong (no permission for CPU quotas, a master that cannot scale, contradicting bounds, a policy that
    raises) is written to the journal and told once; the queries go on untouched and are still observed.
    """

    def __init__(
        self,
        session: SparkSession,
        wanted: Callable[[str, str | None], bool],
        settings: Settings,
        policy: AnyPolicy | str | None,
        *,
        guards: Guards | None = None,
        journal: JournalLike = None,
        metrics: str | None = None,
        page: str | None = None,
        linger: float = 30.0,
        notify: Callable[[str], None] | None = None,
        label: str = "",
        query: StreamingQuery | None = None,
    ) -> None:
        self._session, self.settings, self._linger = session, settings, linger
        self._query = query  # the one that is attached; it may have ended already
        self._failures: set[tuple[str, int]] = set()  # told ones: query and restart
        self._began = time.time()
        self.problem = ""  # why nothing is changed, in one sentence; empty where all is well
        self.journal, self._owns_journal = _journal(journal, session, settings, label)
        self._careful = CarefulJournal(self.journal, notify or _to_terminal)
        self._watcher = Watcher(session, wanted)
        self._power: MachinePower | None = None
        self._policy = self._choose(policy)
        self._plant = self._make_plant()
        self.controller = Controller(
            self._plant,
            self._policy,
            guards or default_guards(settings),
            self._careful,
            period=settings.period,
            dry_run=settings.dry_run or bool(self.problem),
            active=self._running,
        )
        self._endpoint = self._serve(metrics)
        self._page = self._serve_page(page)
        self._stop = threading.Event()
        self._cpu: dict[str, tuple[float, float]] = {}
        self._finished = False
        self.last: Step | None = None
        self._seen: Observation | None = None
        self.controller.observed.add(self._observed)
        self.controller.stepped.add(self._stepped)
        self._thread = threading.Thread(target=self._attend, name="penstock-autoscaler", daemon=True)
        self._sampler = threading.Thread(target=self._sample, name="penstock-sampler", daemon=True)
        self._cleaned = threading.Lock()

    def start(self) -> "Autoscaler":
        """Begin."""
        if self.scales:
            _scaling[str(self._session.sparkContext.applicationId)] = self
        self._watcher.begin(self._query)
        atexit.register(self.stop)
        self.controller.start()
        self._thread.start()
        self._sampler.start()
        return self

    def stop(self) -> None:
        """End the controller and take back CPU quotas and frequency cap; the queries and their executors stay as they are."""
        self._stop.set()
        self._watcher.changed.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=30)
        self._clean()

    def rescale(self, executors: int) -> None:
        """Ask for so many executors now; the policy, unless paused, goes on from there."""
        bounds = self.settings.executors
        if bounds is not None and not bounds[0] <= executors <= bounds[1]:
            raise PenstockError(
                f"This query may have {bounds[0]} to {bounds[1]} executors, not {executors}; attach it with other bounds."
            )
        applied = self.controller.change(Change(Knob.EXECUTORS, "", executors))
        for _, why in applied.refused:
            raise PenstockError(f"{executors} executors cannot be had: {why}.")

    @property
    def progress(self) -> dict[str, Any]:
        """Figures of the last look at the queries; empty before the first."""
        return {} if self._seen is None else _figures(self._seen)

    def listen(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """Tell ``listener`` the figures of each look at the queries."""
        self.controller.observed.add(lambda observation: listener(_figures(observation)))

    def step_aside(self) -> bool:
        """Leave for another autoscaler of the application; False where a query still needs this one."""
        running = {str(query.id) for query in self._session.streams.active}
        if self._linger == inf or running.intersection(self._watcher.queries):
            return False
        self.stop()
        return True

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive() and not self._stop.is_set()

    @property
    def scales(self) -> bool:
        """Whether it may change anything of the application."""
        power = self._power is not None and not self.settings.dry_run
        return not self.problem and (self.settings.scales or power)

    @property
    def steps(self) -> int:
        """Steps of the controller so far."""
        return self.controller.state.steps

    @property
    def overhead(self) -> float:
        """Share of one core that observing and deciding has cost the driver so far (Python and JVM)."""
        used = [now - first for first, now in list(self._cpu.values())]
        return (sum(used) + self._watcher.cpu + self.controller.policy_cpu) / max(
            1e-9, time.time() - self._began
        )

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the autoscaler has ended with its queries (or ``timeout`` seconds); True if it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def await_end(self, timeout: float | None = None) -> bool:
        """Deprecated: the old name of :meth:`await_termination`."""
        deprecated("Autoscaler.await_end", "await_termination")
        return self.await_termination(timeout)

    def __enter__(self) -> "Autoscaler":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _choose(self, policy: AnyPolicy | str | None) -> AnyPolicy:
        try:
            chosen = choose(policy, self.settings)
            self._power = machine_power(self._session, chosen)
            chosen.start()  # a policy is user code, and what it raises must not reach the program that runs the query
            return chosen
        except PenstockError as error:
            self._give_up(str(error))
        except Exception as error:  # noqa: BLE001 - see above
            self._give_up(f"The policy {policy} could not start: {in_words(error)}")
        return Static()

    def _make_plant(self) -> AttachedPlant:
        executors: Executors | None = None
        groups: ExecutorGroups | None = None
        if self.settings.executors is not None:
            try:
                executors = Executors(self._session)
            except PenstockError as error:
                self._give_up(str(error))
        if self.settings.shares and not self.scales:
            groups = Ungrouped()
        elif self.settings.shares:
            try:
                groups = ExecutorGroups(self._session.sparkContext.applicationId, self.settings.initial_share)
            except (CgroupUnavailableError, OSError) as error:
                self._tell_and_record(f"CPU shares are left alone: {error}")
        self._groups, own = groups, self._own_process
        return AttachedPlant(
            self._session,
            self._watcher,
            executors,
            groups,
            self._power,
            warn=self._tell_and_record,
            partition_limit=self.settings.partition_limit,
            thinking=None if own is None else lambda: own.thinker.cpu,
        )

    @property
    def _own_process(self) -> OwnProcess | None:
        """The process in which the policy thinks, where it has one."""
        inside = self._policy.policy if isinstance(self._policy, HeldToLag) else self._policy
        return inside if isinstance(inside, OwnProcess) else None

    def _serve(self, address: str | None) -> MetricsEndpoint | None:
        if address is None:
            return None
        try:
            return MetricsEndpoint(str(address), self.controller.guards, self.settings.target)
        except PenstockError as error:
            self._tell_and_record(str(error))
            return None

    def _serve_page(self, address: str | None) -> PageServer | None:
        if address is None:
            return None
        try:
            return serve_page(str(address), self.controller)
        except PenstockError as error:
            self._tell_and_record(str(error))
            return None

    def _give_up(self, why: str) -> None:
        self.problem = why
        self._tell_and_record(f"Nothing will be changed: {why}")

    def _tell_and_record(self, text: str) -> None:
        self._careful.warn(time.time() - self._began, "autoscaler", text)

    def _attend(self) -> None:
        """Leave with the queries."""
        try:
            while not self._stop.is_set():
                self._watcher.changed.wait(0.5)
                self._watcher.changed.clear()
                self._tell_failures()
                if not self._stop.is_set() and not self._running() and not self._await_restart():
                    break
        except Exception as error:  # noqa: BLE001 - the queries must not notice, whatever happens here
            if not self._stop.is_set() and not _session_gone(self._session):
                self._tell_and_record(f"The autoscaler ended: {type(error).__name__}: {error}")
        finally:
            self._clean()

    def _sample(self) -> None:
        """Read task times after each batch; Spark's status lags a batch's end by a tenth of a second."""
        done = self._watcher.batch_done
        while not self._stop.is_set():
            if not done.wait(0.5):
                continue
            done.clear()
            self._stop.wait(0.12)
            try:
                self._plant.sample()
                self._count("samples")
            except Exception as error:  # noqa: BLE001 - the session may end at any time, and a sample is no loss
                log.debug("task times could not be read: %s", error)

    def _observed(self, observation: Observation) -> None:
        self._seen = observation
        self._count("steps")
        if self._endpoint is not None:
            self._endpoint.observed(observation, self.overhead)

    def _count(self, what: str) -> None:
        """Keep what this thread has used since it first came here."""
        used = _cpu_seconds(self._session)
        self._cpu[what] = (self._cpu.get(what, (used, used))[0], used)

    def _stepped(self, step: Step) -> None:
        self.last = step
        if self._endpoint is not None:
            self._endpoint.decided(step)

    def _running(self) -> bool:
        queries = self._watcher.queries.values()
        return not queries or any(query.running for query in queries)

    def _await_restart(self) -> bool:
        """A query that ended may be started again from its checkpoint: wait a while before leaving."""
        give_up = time.monotonic() + self._linger
        while time.monotonic() < give_up and not self._stop.is_set():
            if self._running():
                return True
            if _session_gone(self._session):
                return False
            self._tell_failures()
            self._watcher.changed.clear()
            self._watcher.changed.wait(0.5)
        if not self._stop.is_set():
            self._tell_and_record(f"No query has run for {self._linger:g} s: the autoscaler leaves.")
        return False

    def _tell_failures(self) -> None:
        """Record what ended by an error, each run once."""
        for query in self._watcher.queries.values():
            run = (query.id, query.restarts)
            if (error := query.ended) and run not in self._failures:
                self._failures.add(run)
                self._tell_and_record(f"The query {query.name} failed: {error.splitlines()[0]}")

    def _clean(self) -> None:
        with self._cleaned:
            if self._finished:
                return
            self._finished = True
            self._stop.set()
            atexit.unregister(self.stop)
            self.controller.stop()
            with contextlib.suppress(Exception):  # a session that is gone has no listeners
                self._watcher.end()
            for part in (
                self._groups,
                self._power,
                self._endpoint,
                self._page,
                self._careful if self._owns_journal else None,
                self._own_process,
            ):
                if part is not None:
                    with contextlib.suppress(OSError):
                        part.close()


def _journal(
    journal: JournalLike, session: SparkSession, settings: Settings, label: str
) -> tuple[Journal, bool]:
    default = Path("penstock-runs") / "autoscale" / f"{session.sparkContext.applicationId}{label}.jsonl"
    header: dict[str, Any] = {
        "plant": "spark",
        "application": session.sparkContext.applicationId,
        "executors": list(settings.executors or ()),
        "dry_run": settings.dry_run,
    }
    if settings.target is not None:
        header |= {"target": settings.target, "metric": "latency_p95"}
    try:
        return open_journal(journal, default, header)
    except (PenstockError, TypeError) as error:  # types are no promise
        _to_terminal(f"No journal is kept: {error}")
        return Journal(), True


def scaler_of(session: SparkSession) -> Autoscaler | None:
    """The autoscaler that changes something of this application now."""
    handle = _scaling.get(str(session.sparkContext.applicationId))
    return handle if handle is not None and handle.active else None


def _figures(observation: Observation) -> dict[str, Any]:
    """An observation in a few plain figures, query by query."""
    queries = {
        stage.name: {
            "arrival_rate": stage.arrival_rate,
            "rows": stage.tuples_in,
            "backlog": stage.backlog,
            "utilisation": stage.utilisation,
            "latency": stage.latency.mean,
            "latency_p95": stage.latency.p95,
        }
        for stage in observation.stages
    }
    executors = {} if observation.executors is None else {"executors": observation.executors.observed}
    thinking = observation.extra.get(Metric.THINKING.value)
    own = {} if thinking is None else {Metric.THINKING.value: thinking}
    return {"time": observation.time, **executors, **own, "queries": queries}


def _cpu_seconds(session: SparkSession) -> float:
    """CPU time of this thread and of the JVM thread that answers it."""
    jvm: Any = session.sparkContext._jvm
    used = int(jvm.java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime())
    return time.thread_time() + max(0, used) / 1e9


def _session_gone(session: SparkSession) -> bool:
    try:
        context: Any = session.sparkContext
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except Exception:  # noqa: BLE001 - the JVM is gone
        return True


def _to_terminal(text: str) -> None:
    from rich.console import Console

    Console(stderr=True, soft_wrap=True).print(f"penstock: {text}", style="yellow", markup=False)
