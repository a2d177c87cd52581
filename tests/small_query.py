"""A small query on two attributes that several tests ask."""

from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc

import penstock as ps

#: How long the query waits for late rows.
SLACK = timedelta(seconds=1)


def question() -> ps.PreferenceQuery:
    """Skyline of two attributes; nothing is late."""
    return ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("a0"), ps.minimize("a1")),
        time="event_time",
        window="1 second",
        slide="500 milliseconds",
        disorder=ps.FixedDelay("1 second"),
        pane_workers=2,
    )


def last_due(whole: Any) -> datetime:
    """The last moment up to which windows are due once the whole stream was read: its newest time without the slack."""
    newest: datetime = pc.max(whole.select("event_time").toArrow()["event_time"]).as_py()
    return newest - SLACK
