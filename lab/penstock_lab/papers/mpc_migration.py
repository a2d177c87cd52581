"""MPC 5.2.2: three ways to move the state of keys while tuples arrive (Fig. 10)."""

from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.picture import COLOURS
from penstock.sim.plants.operator.migration import PROTOCOLS, Protocol
from penstock.sim.plants.operator.partitioned_operator import OperatorCosts, PartitionedOperator
from penstock.sim.plants.operator.triggers import Triggers
from penstock_lab.papers.drawing import draw
from penstock_lab.papers.mpc_runs import KEYS, SLIDE, alias_tables, quote_triggers
from penstock_lab.results import ResultsPage, Table

#: When the rate steps up, and when six replicas become eight.
STEP, CHANGE, END = 5.0, 6.0, 10.0
_SLOT = 0.02
#: Seconds between two readings of the paper's monitors (5.2.1), over which it averages a latency.
_MONITORED = 1.0


def migration(report: ResultsPage, scale: float, folder: Path) -> None:
    """The rate goes from 300,000 to 400,000 quotes a second; a second later replicas are added."""
    rates = np.where(np.arange(int(END)) < STEP, 3e5, 4e5)
    times, keys = quote_triggers(
        rates, *alias_tables(np.full(KEYS, 1 / KEYS)), SLIDE, np.random.default_rng(9)
    )
    stream = Triggers(times, keys, KEYS, END, SLIDE)
    runs = {p: _run(stream, p) for p in PROTOCOLS}
    rows: list[list[Any]] = []
    for protocol, (latency, counts, moved) in runs.items():
        after, first = _slots(CHANGE, END), _slots(CHANGE, CHANGE + 0.1)
        rows.append([
            protocol, moved, 1e3 * _monitored_peak(latency, counts), 1e3 * np.nanmax(latency[after]), counts[first].sum(),
            _settled(latency),
        ])  # fmt: skip
    report.tables.append(
        Table(
            "Fig. 10: migration protocols, 6 to 8 replicas",
            (
                "protocol",
                "keys moved",
                "latency peak, by 1 s (ms)",
                "by 20 ms (ms)",
                "results in the first 100 ms",
                "below 100 ms after (ms)",
            ),
            rows,
            "The paper gives curves without numbers: MP below S-BLK below R-BLK in latency, and most results during the migration. Its monitors "
            "read every second. Looked at every 20 ms, S-BLK has a short peak of its own: what the splitter held comes out together.",
        )
    )
    by = {r[0]: r for r in rows}
    report.claim(
        "Fig. 10a: latency peaks are lowest with MP, highest with R-BLK", "MP < S-BLK < R-BLK",
        ", ".join(f"{p} {by[p][2]:.1f} ms" for p in PROTOCOLS), by["MP"][2] < by["S-BLK"][2] < by["R-BLK"][2],
    )  # fmt: skip
    report.claim(
        "Fig. 10a: after the migration the latency falls soonest with MP", "MP before S-BLK",
        ", ".join(f"{p} {by[p][5]:.0f} ms" for p in PROTOCOLS), by["MP"][5] < min(by["S-BLK"][5], by["R-BLK"][5]),
    )  # fmt: skip
    report.claim(
        "Fig. 10b: MP gives most results during the migration", "MP", ", ".join(f"{p} {by[p][4]:.0f}" for p in PROTOCOLS),
        by["MP"][4] > max(by["S-BLK"][4], by["R-BLK"][4]),
    )  # fmt: skip
    report.plots.append(draw(folder / "mpc-fig10.png", lambda axes: _draw(axes, runs), 1, 2))


def _run(stream: Triggers, protocol: Protocol) -> tuple[Any, Any, int]:
    plant = PartitionedOperator(stream, OperatorCosts(protocol=protocol), workers=6, limit=12, seed=3)
    plant.wait_until(CHANGE)
    plant.observe()
    done = plant.apply(Decision((Change(Knob.WORKERS, "operator", 8),), "the experiment"))
    plant.wait_until(END + 1.0)
    plant.observe()
    departures = plant.departures
    slots = np.floor(departures / _SLOT).astype(int)
    count = int(END / _SLOT)
    inside = slots < count
    total = np.bincount(slots[inside], weights=(departures - stream.times)[inside], minlength=count)
    counts = np.bincount(slots[inside], minlength=count)
    latency = np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
    return latency, counts, int(done.moved / plant.costs.state_bytes)


def _slots(start: float, end: float) -> slice:
    return slice(int(start / _SLOT), int(end / _SLOT))


def _monitored_peak(latency: Any, counts: Any) -> float:
    """The highest mean latency of a monitoring interval after the change."""
    each = round(_MONITORED / _SLOT)
    after = _slots(CHANGE, END)
    total = np.nansum((latency * counts)[after].reshape(-1, each), axis=1)
    return float(np.max(total / np.maximum(counts[after].reshape(-1, each).sum(axis=1), 1)))


def _settled(latency: Any, bound: float = 0.1) -> float:
    """Milliseconds from the change until the latency stays below a bound."""
    above = np.flatnonzero(latency[_slots(CHANGE, END)] > bound)
    return 1e3 * _SLOT * (int(above[-1]) + 1) if len(above) else 0.0


def _draw(axes: Any, runs: Any) -> None:
    for (protocol, (latency, counts, _)), colour in zip(runs.items(), COLOURS, strict=False):
        time = (np.arange(len(latency)) + 0.5) * _SLOT
        part = (time > CHANGE - 0.3) & (time < CHANGE + 0.8)
        axes[0].plot(time[part], 1e3 * latency[part], color=colour, label=protocol)
        axes[1].plot(time[part], counts[part], color=colour)
    axes[0].set(title="latency (ms)", xlabel="time (s)")
    axes[1].set(title=f"results per {1e3 * _SLOT:.0f} ms", xlabel="time (s)")
