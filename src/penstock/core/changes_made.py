"""Changes that were made in a run: which of them count, how far apart they are, how large they were."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, nan

#: What counts as one step of a knob; changes of others are no reconfiguration.
UNIT = {"workers": 1.0, "executors": 1.0, "frequency": 0.1, "cpu_share": 0.1, "pipelines": 1.0}

#: The source of a change that a plant tells of again, with the batch in which it came.
EFFECT = "took effect"


@dataclass(frozen=True, slots=True)
class Made:
    """One change that was made; nan where a value has no size."""

    time: float
    knob: str
    where: str
    before: float
    after: float


def made_changes(rows: Sequence[tuple[str, Made]]) -> list[Made]:
    """Changes with their sources, by the time they took effect, or by that of their decision where no effect is told.

    A decision on a pipeline (``chain/0``) takes effect on its region (``chain``).

    >>> wish, came = Made(1.0, "workers", "a", 1, 2), Made(3.0, "workers", "a", 1, 2)
    >>> [m.time for m in made_changes([("policy", wish), (EFFECT, came)])]
    [3.0]
    """
    effects = [m for source, m in rows if source == EFFECT]
    latest: dict[tuple[str, str], float] = {}
    for m in effects:
        latest[m.knob, _region(m.where)] = max(m.time, latest.get((m.knob, _region(m.where)), m.time))
    # A decision is told of again by an effect that comes later on the same knob and place.
    pending = [
        m
        for source, m in rows
        if source != EFFECT and not latest.get((m.knob, _region(m.where)), nan) >= m.time
    ]
    return sorted(effects + pending, key=lambda m: m.time)


def _region(where: str) -> str:
    name, _, number = where.rpartition("/")
    return name if number.isdigit() else where


def change_times(made: Iterable[Made], wanted: Iterable[str] = tuple(UNIT)) -> list[float]:
    """Times at which any of these knobs was changed."""
    return sorted({m.time for m in made if m.knob in wanted})


def amplitude(made: Iterable[Made]) -> float:
    """Mean Euclidean distance, in units, between the configurations before and after."""
    squares: dict[float, float] = {}
    for m in made:
        if m.knob in UNIT and m.before == m.before and m.after == m.after:
            squares[m.time] = squares.get(m.time, 0.0) + ((m.after - m.before) / UNIT[m.knob]) ** 2
    return _mean([s**0.5 for s in squares.values()])


def settling_time(times: Iterable[float], gap: float) -> float:
    """Mean length of the bursts of changes; those less than ``gap`` seconds apart belong to one burst."""
    lengths: list[float] = []
    start = last = nan
    for time in times:
        if not time - last <= gap:
            if last == last:
                lengths.append(last - start)
            start = time
        last = time
    if last == last:
        lengths.append(last - start)
    return _mean(lengths)


def steps_to_converge(times: Sequence[float], load_steps: Sequence[float], quiet: float) -> float:
    """Mean number of changes after a step of the load, until none follows for more than ``quiet`` seconds or the load steps again.

    ``quiet`` must be longer than the pauses that the policy itself makes between two decisions. nan where the load has no steps.

    >>> steps_to_converge([20.0, 35.0, 50.0, 300.0], [10.0], quiet=60.0)
    3.0
    """
    counts = []
    for begin, end in pairwise([*sorted(load_steps), inf]):
        after = [t for t in times if begin <= t < end]
        calm = [later - earlier > quiet for earlier, later in pairwise(after)]
        counts.append(float(calm.index(True) + 1 if True in calm else len(after)))
    return _mean(counts) if counts else nan


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
