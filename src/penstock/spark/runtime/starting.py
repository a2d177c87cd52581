"""What ``PreferenceQuery.start``, ``Flow.start`` and ``attach`` have in common: the meaning of their words."""

import time
import warnings
from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import Any

from penstock.core.durations import microseconds
from penstock.core.errors import PenstockError
from penstock.core.journal import FileJournal, Journal

#: Seconds between two decisions. A decision should see the batches that came of the one before: at the usual trigger of
#: a second that is five of them, and new executors need about as long to come.
PERIOD = 5.0

#: The word ``journal``: a path, or a journal that its owner closes.
JournalLike = Journal | str | Path | None


def open_journal(
    journal: JournalLike, default: Path, header: Mapping[str, Any] | None = None
) -> tuple[Journal, bool]:
    """The journal of a run, and whether the run is to close it."""
    if isinstance(journal, Journal):
        return journal, False
    return FileJournal(journal or default, {"started": time.time(), **(header or {})}), True


def check_period(period: float) -> None:
    """Refuse a period that is none; 0 decides after every batch."""
    if not 0 <= period < float("inf"):
        raise PenstockError(f"The period must be a number of seconds, 0 or more, not {period}.")


def seconds_between_batches(trigger: str, available_now: bool) -> float:
    """The trigger in seconds; nan where batches follow each other at once, or where only Spark knows the words."""
    if available_now:
        return nan
    try:
        return microseconds(trigger, "trigger") / 1e6
    except PenstockError:
        return nan


def refuse_connect(thing: object) -> None:
    """Refuse what belongs to a Spark Connect session: its driver is elsewhere, out of reach for workers and listeners."""
    if type(thing).__module__.startswith("pyspark.sql.connect"):
        raise PenstockError(
            "Penstock's runs need the driver's own session and this is Spark Connect; start the program with spark-submit or "
            "penstock.spark.session(). What works here: query.evaluate(frame.toArrow()) and preference.of(frame.toArrow())."
        )


def deprecated(old: str, new: str) -> None:
    """Warn the caller's caller that a word has another name now."""
    warnings.warn(
        f"{old} is now {new}; the old word goes with version 0.3.", DeprecationWarning, stacklevel=3
    )
