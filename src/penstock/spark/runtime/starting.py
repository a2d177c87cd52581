"""What ``PreferenceQuery.start``, ``Flow.start`` and ``attach`` have in common: the meaning of their words."""

import inspect
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import nan
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from pyspark.sql import SparkSession

from penstock.core.controller import Controller
from penstock.core.durations import microseconds
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.journal import FileJournal, Journal
from penstock.core.names import check_name
from penstock.core.plant import Plant
from penstock.core.policy import AnyPolicy
from penstock.core.store_journal import StoreJournal
from penstock.core.stores import StorePath, is_store
from penstock.policies.catalog import policy_named
from penstock.policies.surroundings import Surroundings
from penstock.spark.runtime.engine_choice import AUTO, check_engine
from penstock.spark.runtime.locations import Location
from penstock.spark.runtime.output_places import Place

#: Seconds between two decisions. A decision should see the batches that came of the one before: at the usual trigger of
#: a second that is five of them, and new executors need about as long to come.
PERIOD = 5.0

#: What settings of object stores begin with. The folder of copies is not among them: it is each host's own affair.
STORE_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_", "PENSTOCK_STATE_CACHE_MB")

#: The word ``journal``: a path, or a journal that its owner closes.
JournalLike = Journal | str | Path | StorePath | None


class StartOptions(TypedDict, total=False):
    """The words that ``PreferenceQuery.start``, ``WindowQuery.start`` and ``Flow.start`` share, for type checkers."""

    trigger: str
    available_now: bool
    policy: AnyPolicy | str | None
    guards: Guards | None
    period: float
    dry_run: bool
    engine: str
    journal: JournalLike
    metrics: str | None
    page: str | None
    gather: str | None
    dead_letters: Place | None
    name: str | None


@dataclass(frozen=True)
class Start:
    """The same words with their defaults, checked: how a run is made."""

    trigger: str = "1 second"
    available_now: bool = False
    policy: AnyPolicy | str | None = None
    guards: Guards | None = None
    period: float = PERIOD
    dry_run: bool = False
    engine: str = AUTO
    journal: JournalLike = None
    metrics: str | None = None
    page: str | None = None
    gather: str | None = None
    dead_letters: Place | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_period(self.period)
        check_engine(self.engine)
        if self.name is not None:
            check_name(self.name, "query")

    @property
    def between(self) -> float:
        """Seconds between two batches; nan where they follow each other at once, or where only Spark knows the words."""
        if self.available_now:
            return nan
        try:
            return microseconds(self.trigger, "trigger") / 1e6
        except PenstockError:
            return nan

    def chosen_policy(self, surroundings: Surroundings) -> AnyPolicy | None:
        """The policy, made by its name for these surroundings where only a name is given."""
        return None if self.policy is None else policy_named(self.policy, surroundings)

    def controller(self, plant: Plant, policy: AnyPolicy | None, journal: Journal) -> Controller[Any]:
        """Who lets the policy change the plant."""
        return Controller(plant, policy, self.guards, journal, period=self.period, dry_run=self.dry_run)


Started = TypeVar("Started", bound=Callable[..., Any])


def takes_options(start: Started) -> Started:
    """Show the words of :class:`Start` in the signature of a function that takes them as ``**options``."""
    known = inspect.signature(start)
    own = [p for p in known.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in fields(Start)
    ]
    start.__signature__ = known.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return start


def open_journal(
    journal: JournalLike, default: Location, header: Mapping[str, Any] | None = None
) -> tuple[Journal, bool]:
    """The journal of a run, and whether the run is to close it."""
    if isinstance(journal, Journal):
        return journal, False
    place, first = journal or default, {"started": time.time(), **(header or {})}
    if isinstance(place, StorePath) or is_store(place):
        return StoreJournal(str(place), first), True
    return FileJournal(place, first), True


def hand_on_store_settings(spark: SparkSession) -> None:
    """Give the Python workers of a session what the driver's environment says about object stores.

    It goes the way of all that a task needs, so whoever may read tasks may read it.
    """
    spark.sparkContext.environment.update(
        {name: value for name, value in os.environ.items() if name.startswith(STORE_SETTINGS)}
    )


def check_period(period: float) -> None:
    """Refuse a period that is none; 0 decides after every batch."""
    if not 0 <= period < float("inf"):
        raise PenstockError(f"The period must be a number of seconds, 0 or more, not {period}.")


def refuse_connect(thing: object) -> None:
    """Refuse what belongs to a Spark Connect session: its driver is elsewhere, out of reach for workers and listeners."""
    if type(thing).__module__.startswith("pyspark.sql.connect"):
        raise PenstockError(
            "Penstock's runs need the driver's own session and this is Spark Connect; start the program with spark-submit or "
            "penstock.spark.session(). What works here: query.evaluate(frame.toArrow()) and preference.of(frame.toArrow())."
        )
