"""A small query on two attributes that several tests ask."""

import penstock as ps


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
