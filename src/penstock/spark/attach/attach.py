"""Autoscale a Structured Streaming query that Penstock did not write."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pyspark.sql.streaming.query import StreamingQuery

from penstock.core.careful_journal import in_words
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.names import check_name
from penstock.core.policy import AnyPolicy
from penstock.policies.surroundings import PlantKind
from penstock.policies.wishes import wished_late, wished_target
from penstock.spark.attach.autoscaler import Autoscaler, _to_terminal, scaler_of
from penstock.spark.attach.settings import Settings
from penstock.spark.runtime.starting import PERIOD, JournalLike

#: The autoscaler of each attached query, as long as somebody holds it.
_attached: WeakValueDictionary[str, Autoscaler] = WeakValueDictionary()

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def attach(
    query: StreamingQuery,
    policy: AnyPolicy | str | None = None,
    executors: tuple[int, int] | None = (1, 8),
    cpu: float | Sequence[float] | None = None,
    target: float | None = None,
    dry_run: bool = False,
    *,
    prefer: str | None = None,
    target_lag: float | None = None,
    partition_limit: bool = True,
    guards: Guards | None = None,
    period: float = PERIOD,
    journal: JournalLike = None,
    metrics: str | None = None,
    page: str | None = None,
    name: str | None = None,
    linger: float = 30.0,
    notify: Callable[[str], None] | None = None,
) -> Autoscaler:
    """Let a policy scale the application that runs ``query``, whoever wrote it.

    The query is observed through Spark's streaming listener and status, the loop runs in a thread of the driver, and
    nothing ever waits for it. It follows the query through restarts from its checkpoint and ends with it.

    Executors belong to the application: of several attached queries one may scale them, and the others are observed.
    ``penstock autoscale`` watches all queries of a program with one policy.

    Parameters
    ----------
    query
        A running query of a classic (not Connect) session.
    policy
        A policy object, or a name such as ``"threshold"``.
    executors
        Least and most executors; None leaves them alone.
    cpu
        A share of a core to hold each executor to, or ascending levels for the policy to choose from.
    target
        Seconds within which 95 % of the rows should have their committed result.
    dry_run
        Decide and record, change nothing.
    prefer
        Where you know no target: ``"latency"``, ``"balance"`` or ``"cost"``; also which share of the rows may be late (1, 5
        or 10 %) to policies that aim at one: ``Autopilot``, and ``Mpc`` and ``Mead`` by name.
    target_lag
        Rows that may wait at the source (Kafka). While more wait, there are at least as many executors as it takes to
        work the excess off in half a minute, whatever the policy says.
    partition_limit
        Whether a query that reads Kafka and keeps no state gets no more slots than its topics have partitions, since each
        partition is one task. False for queries with ``minPartitions``, or that repartition.
    guards
        In place of the default guards.
    period
        Seconds between two decisions.
    journal
        Where to record the run; by default a file under ``penstock-runs/autoscale``.
    metrics
        Address of a Prometheus endpoint, such as ``"127.0.0.1:9108"`` (port 0: a free one).
    page
        Address of the live page, such as ``"127.0.0.1:8765"`` (port 0: a free one); ``page_address`` is what to open.
    name
        What the journal's file goes by; the query's own name by default.
    linger
        Seconds to wait for a restart after the query ended.
    notify
        Told each problem once; the terminal by default.

    Returns
    -------
    Autoscaler
        With ``rescale(executors=...)``, ``progress``, ``listen()``, ``pause()``, ``resume()``, ``stop()``,
        ``await_termination()``, and ``problem``, ``last``, ``overhead``. Mistakes in the arguments do not
        raise, since that might end the program that runs the query: they are told once and stand in ``problem`` and
        in the journal, and the query is only observed.
    """
    session = _session_of(query)
    id_ = str(query.id)
    problem = _already(id_)
    try:
        wished = wished_target(prefer, PlantKind.MICRO_BATCHES)
        settings = Settings(
            executors, cpu, wished if target is None else target, period, dry_run, target_lag, partition_limit,
            wished_late(prefer),
        )  # fmt: skip
        if name is not None:
            check_name(name, "query")
        problem = problem or _rivalry(session, settings)
    except PenstockError as error:
        problem, name = str(error), None
    except Exception as error:  # noqa: BLE001 - whatever was given must not end the program that runs the query
        problem, name = f"attach cannot use these arguments ({in_words(error)}); see help(attach)", None
    if problem:
        settings = Settings(executors=None, dry_run=True)
    handle = Autoscaler(
        session,
        lambda other, _: other == id_,
        settings,
        policy,
        guards=guards,
        journal=journal,
        metrics=metrics,
        page=page,
        linger=linger,
        notify=notify or _to_terminal,
        label=f"-{name or _as_file_name(query.name) or id_[:8]}",
        query=query,
    )
    if problem:
        handle._give_up(problem)
    else:
        _attached[id_] = handle
    return handle.start()


def _already(query: str) -> str:
    """Why a query cannot be attached; empty where it can."""
    handle = _attached.get(query)
    if handle is None or not handle.active:
        return ""
    return (
        "this query has an autoscaler already, and two would undo each other's changes; stop that one first"
    )


def _rivalry(session: "SparkSession", settings: Settings) -> str:
    """Why these settings would fight with another autoscaler of the application; empty where they do not."""
    rival = scaler_of(session) if settings.scales else None
    if rival is None or rival.step_aside():
        return ""
    return (
        "another autoscaler changes the executors or CPU shares of this application, which all its queries have in common; "
        "run the program with penstock autoscale, which watches all queries with one policy, or attach this query with "
        "executors=None and without cpu to observe it"
    )


def _as_file_name(name: str | None) -> str:
    """The name of somebody else's query, which may hold anything, as a part of a file's name."""
    return re.sub(r"[^\w-]+", "-", name or "")[:60]


def _session_of(query: StreamingQuery) -> "SparkSession":
    from pyspark.sql import SparkSession

    plain: Any = query
    session = SparkSession.getActiveSession()
    if session is None or not hasattr(plain, "_jsq"):
        raise PenstockError(
            "This is no query of a Spark session in this process (Spark Connect is not supported): "
            "attach in the driver program, or use penstock autoscale."
        )
    return session
