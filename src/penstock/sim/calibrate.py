"""The costs of the Spark-like plant from the journal of a real run.

Each batch says how long it took, how many rows it had and how many slots worked:

    duration = overhead + row_cost rows / slots

Both unknowns come from least squares over the batches; where all batches are about the same size, the two cannot be told
apart that way, and the row cost is the tasks' busy time over the rows. The noise is the spread of the logarithm of
measured over fitted durations. The time executors take to arrive is read off the observations in which more were
planned than worked; by how much new ones slow a batch, the plant tells itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from pathlib import Path

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation
from penstock.core.tables import Tables, read
from penstock.sim.plants.micro_batch import SparkCosts

#: Batches that the fit needs at least, and the spread of their sizes below which sizes do not tell the overhead.
_LEAST, _SPREAD = 5, 0.1


@dataclass(frozen=True)
class Calibration:
    """What was found in a journal."""

    costs: SparkCosts
    batches: int
    error: float  # median relative error of the fitted durations
    method: str
    arrivals: int  # executor arrivals that were seen
    warm_ups: int  # batches on new executors that were seen

    def parameters(self) -> dict[str, float]:
        """The plant's parameters that the journal told, and how well they fit."""
        found: dict[str, float] = {
            "overhead": self.costs.overhead,
            "row_cost": self.costs.row_cost,
            "trigger": self.costs.trigger,
            "noise": self.costs.noise,
            "cores": self.costs.cores,
        }
        if self.arrivals:
            found["arrives_after"] = self.costs.arrives_after
        if self.warm_ups:
            found["warm_up"] = self.costs.warm_up
        return {**found, "batches": self.batches, "error": self.error}


@dataclass(frozen=True)
class _Sample:
    rows: float
    duration: float
    slots: float
    busy: float


def calibrate(journal: str | Path | Tables) -> Calibration:
    """Fit the costs to a journal of an attached query, of a preference query or of a simulated run."""
    tables = journal if isinstance(journal, Tables) else read(journal)
    seen = list(tables.replay())
    samples = [s for s in map(_sample, seen) if s is not None]
    if len(samples) < _LEAST:
        raise PenstockError(
            f"The journal has {len(samples)} batches with rows and durations, {_LEAST} are needed; record a longer run."
        )
    rows, duration, slots, busy = (
        np.array([getattr(s, name) for s in samples]) for name in ("rows", "duration", "slots", "busy")
    )
    overhead, row_cost, method = _fit(rows / slots, duration, rows, busy)
    fitted = overhead + row_cost * rows / slots
    late = _arrival_times(seen)
    slower = [s.extra["warm_up"] for o in seen for s in o.stages if isfinite(s.extra.get("warm_up", nan))]
    costs = SparkCosts(
        overhead=overhead,
        row_cost=row_cost,
        trigger=_trigger(seen),
        noise=_noise(duration, fitted),
        cores=_cores(seen),
        arrives_after=float(np.median(late)) if late else SparkCosts.arrives_after,
        warm_up=float(np.median(slower)) if slower else SparkCosts.warm_up,
    )
    error = float(np.median(np.abs(fitted - duration) / duration))
    return Calibration(costs, len(samples), error, method, len(late), len(slower))


def _sample(o: Observation) -> _Sample | None:
    """Rows, duration and slots of the last batch of an observation; None where it has none."""
    if not o.stages:
        return None
    stage = o.stages[0]
    # An attached query tells its batches by stage, a preference query and a flow for the whole observation.
    batches = stage.extra.get("batches", o.extra.get("batches", 0.0))
    rows = stage.extra.get("batch_rows", o.extra.get("rows", nan))
    if isnan(rows) and batches > 0:
        rows = stage.tuples_in / batches
    duration = o.extra.get("batch_seconds", nan) if isnan(stage.batch_duration) else stage.batch_duration
    if isnan(duration) and batches > 0:
        duration = o.extra.get("busy", nan) * o.period / batches
    slots = max(s.workers.observed for s in o.stages) if isnan(o.slots) else o.slots
    busy = sum(s.busy_time for s in o.stages if not isnan(s.busy_time)) / max(batches, 1.0)
    if isnan(rows) or isnan(duration) or rows <= 0 or duration <= 0 or slots <= 0:
        return None
    return _Sample(float(rows), float(duration), float(slots), float(busy))


def _fit(share: Floats, duration: Floats, rows: Floats, busy: Floats) -> tuple[float, float, str]:
    """(overhead, row cost, how): least squares after dropping the slowest tenth, which are start-up and warm-up."""
    keep = duration <= np.quantile(duration / (1 + share / share.mean()), 0.9) * (1 + share / share.mean())
    x, y = share[keep], duration[keep]
    if x.std() > _SPREAD * x.mean():
        slope, intercept = np.polyfit(x, y, 1)
        if slope > 0 and intercept >= 0:
            return float(intercept), float(slope), "least squares of duration over rows per slot"
    if busy.sum() > 0:
        cost = float(busy.sum() / rows.sum())
        return max(0.0, float(np.mean(y - cost * x))), cost, "busy time over rows"
    return 0.0, float(y.sum() / x.sum()), "duration over rows per slot"


def _noise(duration: Floats, fitted: Floats) -> float:
    """Spread of the logarithm of measured over fitted, by the middle half so that outliers do not count."""
    quarter = np.percentile(np.log(duration / np.maximum(fitted, 1e-9)), [25, 75])
    return float((quarter[1] - quarter[0]) / 1.349)


def _trigger(seen: Sequence[Observation]) -> float:
    triggers = [s.trigger for o in seen for s in o.stages if s.trigger > 0]
    if triggers:
        return float(np.median(triggers))
    return float(np.median([o.period for o in seen if o.period > 1e-6]))


def _cores(seen: Iterable[Observation]) -> int:
    """Tasks that an executor runs at a time."""
    each = [
        o.slots / o.executors.observed for o in seen if o.executors is not None and o.executors.observed > 0
    ]
    known = [cores for cores in each if isfinite(cores)]
    return max(1, round(float(np.median(known)))) if known else 1


def _arrival_times(seen: Iterable[Observation]) -> list[float]:
    """Seconds from a larger plan to its arrival; a plan that was taken back or given up has none."""
    times: list[float] = []
    since, before = nan, 0.0
    for o in seen:
        capacity = o.executors
        if capacity is None:
            continue
        if capacity.arriving and isnan(since):
            since, before = o.time - o.period, capacity.observed
        elif not capacity.arriving and not isnan(since):
            if capacity.observed > before:
                times.append(o.time - o.period / 2 - since)
            since = nan
    return times
