"""Words of warning about the rows of a stream: too many come late or cannot be used, or no window closes."""

from collections.abc import Callable

#: A share of rows above this is told; one that fell below half of it may be told again.
SHARE = 0.1
#: So many rows must have been seen lately, and a batch weighs so much when the next one comes.
ROWS, MEMORY = 20, 0.9
#: No window has closed while the event time went on by so many of them.
WINDOWS = 10


class RowWatch:
    """Told of every batch; says once when something goes wrong, and again only after it was well in between.

    >>> watch = RowWatch(print)
    >>> watch.batch(rows=80, late=80)
    Of the rows of the last batches 100 % came too late (80 of 80); see late= for where they go and disorder= for how long to wait.
    >>> watch.batch(rows=80, late=80)
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._seen = {"rows": 0.0, "late": 0.0, "dead": 0.0}
        self._told: set[str] = set()
        self._mark: float | None = None

    def batch(self, rows: int, late: int = 0, dead: int = 0) -> None:
        """Rows of a batch, of which some came too late or were put aside."""
        new = {"rows": rows, "late": late, "dead": dead}
        self._seen = {name: MEMORY * old + new[name] for name, old in self._seen.items()}
        self._share("late", "came too late", "see late= for where they go and disorder= for how long to wait")
        self._share("dead", "could not be used", "the dead letters have each of them with the reason")

    def closing(self, windows: int, newest: float, window: float, slack: float) -> None:
        """Windows that closed with a batch, the newest event time after it, and the slack (all in seconds)."""
        if newest != newest:
            return  # nothing was believed yet
        if windows or self._mark is None:
            self._mark = newest
            self._told.discard("closing")
        elif newest - self._mark > WINDOWS * window:
            text = (
                f"No window has closed while the event time went on by {newest - self._mark:.6g} s: rows that are "
                f"{slack:.6g} s late are waited for; choose AdaptiveSlack or FixedDelay, or a smaller behind=."
            )
            self._tell("closing", text)

    def _share(self, name: str, verb: str, advice: str) -> None:
        rows, some = self._seen["rows"], self._seen[name]
        if rows < ROWS:
            return
        if some > SHARE * rows:
            counts = f"{some:.0f} of {rows:.0f}"
            self._tell(
                name,
                f"Of the rows of the last batches {100 * some / rows:.0f} % {verb} ({counts}); {advice}.",
            )
        elif some < SHARE / 2 * rows:
            self._told.discard(name)

    def _tell(self, name: str, text: str) -> None:
        if name not in self._told:
            self._told.add(name)
            self._warn(text)
