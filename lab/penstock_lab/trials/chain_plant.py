"""A chain of operators in control groups as a plant: one stage for each, CPU shares as the knob.

In MEAD's words this holds the Workload Monitor (the latest batches, from which the arrivals are read) and the Resource
Manager (quotas).
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path

import numpy as np

from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.observation import LastChange, Observation, StageObservation
from penstock.core.plant import Applied
from penstock.spark.actuators.cpu_share import CpuShare
from penstock.spark.attach.batch_history import SeenBatch, arrival_rate, arrival_times, latency
from penstock.spark.attach.query_listener import QueryWatch
from penstock_lab.trials.chain_operators import Use, read_uses

#: Batches kept for the arrival process.
HISTORY = 2_000


class ChainPlant:
    """Observes a query made by :func:`penstock_lab.trials.chain`, sets the CPU shares of its operators.

    ``branched``: all operators but the first take what the first gives, as in MEAD's Fig. 3; otherwise one after another.
    """

    def __init__(
        self,
        names: Sequence[str],
        watch: Callable[[], QueryWatch | None],
        shares: CpuShare,
        uses: Path,
        trigger: float,
        clock: Callable[[], float] = time.time,
        branched: bool = False,
    ) -> None:
        self._branched = branched
        self._names, self._watch, self._shares = tuple(names), watch, shares
        self._uses, self._offset = uses, 0
        self._history: deque[SeenBatch] = deque(maxlen=HISTORY)
        self._trigger, self._clock = trigger, clock
        self._planned = dict.fromkeys(names, 1.0)
        for name in names:
            shares.set_share(name, self._planned[name])
        self._start = self._last = clock()
        self._changed_at = -np.inf
        self._before: SeenBatch | None = None
        self._overhead = nan

    def observe(self) -> Observation:
        """What happened since the last call."""
        now = self._clock()
        period, self._last = max(1e-3, now - self._last), now
        uses, self._offset = read_uses(self._uses, self._offset)
        query = self._watch()
        batches = query.take() if query is not None else []
        rate = arrival_rate(batches, self._before) if batches else nan
        self._before = batches[-1] if batches else self._before
        self._history.extend(batches)
        self._overhead = self._fixed(batches, uses)
        stages = tuple(self._stage(i, uses, rate, batches, period, now) for i in range(len(self._names)))
        return Observation(now - self._start, period, stages, latency=latency(batches, rate))

    def apply(self, decision: Decision) -> Applied:
        """Set quotas; they hold from the next scheduling period on."""
        made: list[Change] = []
        refused: list[tuple[Change, str]] = []
        for change in decision.changes:
            if change.knob is not Knob.CPU_SHARE or change.where not in self._names:
                refused.append((change, "a chain has CPU shares of its operators and nothing else"))
                continue
            self._shares.set_share(change.where, change.number)
            self._planned[change.where] = change.number
            made.append(change)
        if made:
            self._changed_at = self._clock()
        return Applied(tuple(made), refused=tuple(refused))

    def _fixed(self, batches: list[SeenBatch], uses: list[Use]) -> float:
        """Seconds of a batch in which no operator worked; of those side by side the slowest sets the pace."""
        filled = [b for b in batches if b.rows > 0]
        if not filled or not uses:
            return self._overhead
        took: dict[float, float] = {}
        for index, name in enumerate(self._names):
            own = sum(u.wall for u in uses if u.operator == name)
            took[self._level(index)] = max(own, took.get(self._level(index), 0.0))
        fresh = max(0.0, sum(b.duration for b in filled) - sum(took.values())) / len(filled)
        return fresh if np.isnan(self._overhead) else 0.7 * self._overhead + 0.3 * fresh

    def _level(self, index: int) -> float:
        """A chain works side by side; branches work side by side once the first operator is through."""
        return float(self._branched and index > 0)

    def _downstream(self, index: int) -> tuple[str, ...]:
        if self._branched:
            return () if index else self._names[1:]
        return self._names[index + 1 : index + 2]

    def _stage(
        self, index: int, uses: list[Use], rate: float, batches: list[SeenBatch], period: float, now: float
    ) -> StageObservation:
        name = self._names[index]
        own = [u for u in uses if u.operator == name]
        rows, cpu, wall = sum(u.rows for u in own), sum(u.cpu for u in own), sum(u.wall for u in own)
        quota = self._shares.shares.get(name, 1.0)
        first = index == 0
        arrived = arrival_times(list(self._history), self._trigger) if first else None
        gaps = arrived.gaps if arrived is not None and len(arrived.gaps) > 1 else None
        load = rate * cpu / rows / quota if rows else nan
        room = 1.0 - (0.0 if np.isnan(self._overhead) else self._overhead) / self._trigger
        return StageObservation(
            name=name,
            workers=Capacity.steady(1),
            downstream=self._downstream(index),
            arrival_rate=rate,
            arrival_scv=float(gaps.var() / gaps.mean() ** 2) if gaps is not None and gaps.mean() > 0 else nan,
            interarrivals=gaps,
            interarrival_rows=1.0 if arrived is None else arrived.rows,
            busy_time=wall,
            tuples_in=float(rows),
            tuples_out=float(rows),
            service_time=cpu / rows / quota if rows else nan,
            utilisation=load / max(room, 0.1),
            cpu_share=Capacity(self._planned[name], self._planned[name], quota),
            last_change=LastChange(now - self._changed_at),
            level=self._level(index),
            trigger=self._trigger,
            overhead_time=self._overhead,
            batch_duration=batches[-1].duration if batches else nan,
        )
