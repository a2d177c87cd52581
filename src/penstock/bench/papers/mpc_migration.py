"""MPC 5.2.2: three ways to move the state of keys while tuples arrive (Fig. 10)."""

from pathlib import Path
from typing import Any

import numpy as np

from penstock.bench.papers.drawing import COLOURS, draw
from penstock.bench.papers.mpc_runs import KEYS, SLIDE, alias_tables, quote_triggers
from penstock.bench.report import Report, Table
from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.sim.operator import OperatorCosts, PartitionedOperator, Triggers
from penstock.sim.operator.migration import PROTOCOLS, Protocol

#: When the rate steps up, and when six replicas become eight.
STEP, CHANGE, END = 5.0, 6.0, 8.0
_SLOT = 0.02


def migration(report: Report, scale: float, folder: Path) -> None:
    """The rate goes from 300,000 to 400,000 quotes a second; a second later replicas are added."""
    rates = np.where(np.arange(int(END)) < STEP, 3e5, 4e5)
    times, keys = quote_triggers(
        rates, *alias_tables(np.full(KEYS, 1 / KEYS)), SLIDE, np.random.default_rng(9)
    )
    stream = Triggers(times, keys, KEYS, END, SLIDE)
    runs = {p: _run(stream, p) for p in PROTOCOLS}
    rows: list[list[Any]] = []
    for protocol, (latency, counts, moved) in runs.items():
        after = slice(int(CHANGE / _SLOT), int((CHANGE + 1.0) / _SLOT))
        first = slice(int(CHANGE / _SLOT), int((CHANGE + 0.1) / _SLOT))
        rows.append([
            protocol, moved, 1e3 * np.nanmax(latency[after]), 1e3 * np.nanmean(latency[after]), counts[first].sum(),
            _settled(latency),
        ])  # fmt: skip
    report.tables.append(
        Table(
            "Fig. 10: migration protocols, 6 to 8 replicas",
            (
                "protocol",
                "keys moved",
                "latency peak (ms)",
                "mean of 1 s (ms)",
                "results in the first 100 ms",
                "settled after (ms)",
            ),
            rows,
            "The paper gives curves without numbers: MP below S-BLK below R-BLK in latency, and most results during the migration.",
        )
    )
    by = {r[0]: r for r in rows}
    report.claim(
        "Fig. 10a: MP has the lowest latency after the change", "MP < S-BLK < R-BLK",
        ", ".join(f"{p} {by[p][3]:.1f} ms" for p in PROTOCOLS), by["MP"][3] <= min(by["S-BLK"][3], by["R-BLK"][3]),
    )  # fmt: skip
    report.claim(
        "Fig. 10a: S-BLK peaks lower than R-BLK",
        "yes",
        f"{by['S-BLK'][2]:.1f} and {by['R-BLK'][2]:.1f} ms",
        by["S-BLK"][2] < by["R-BLK"][2],
    )
    report.claim(
        "Fig. 10b: MP gives most results during the migration", "MP", ", ".join(f"{p} {by[p][4]:.0f}" for p in PROTOCOLS),
        by["MP"][4] >= max(by["S-BLK"][4], by["R-BLK"][4]),
    )  # fmt: skip
    report.plots.append(draw(folder / "mpc-fig10.png", lambda axes: _draw(axes, runs), 1, 2))


def _run(stream: Triggers, protocol: Protocol) -> tuple[Any, Any, int]:
    plant = PartitionedOperator(stream, OperatorCosts(protocol=protocol), workers=6, limit=12, seed=3)
    plant.wait_until(CHANGE)
    plant.observe()
    done = plant.apply(Decision((Change(Knob.WORKERS, "operator", 8),), "the experiment"))
    plant.wait_until(END + 1.0)
    plant.observe()
    departures = plant._departures
    slots = np.floor(departures / _SLOT).astype(int)
    count = int(END / _SLOT)
    inside = slots < count
    total = np.bincount(slots[inside], weights=(departures - stream.times)[inside], minlength=count)
    counts = np.bincount(slots[inside], minlength=count)
    latency = np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
    return latency, counts, int(done.moved / plant.costs.state_bytes)


def _settled(latency: Any) -> float:
    """Milliseconds from the change until the latency stays below twice what it ends at."""
    end = float(np.nanmean(latency[int((END - 0.5) / _SLOT) :]))
    after = latency[int(CHANGE / _SLOT) :]
    above = np.flatnonzero(after > 2 * end)
    return 1e3 * _SLOT * (int(above[-1]) + 1) if len(above) else 0.0


def _draw(axes: Any, runs: Any) -> None:
    for (protocol, (latency, counts, _)), colour in zip(runs.items(), COLOURS, strict=False):
        time = (np.arange(len(latency)) + 0.5) * _SLOT
        part = (time > CHANGE - 0.3) & (time < CHANGE + 0.8)
        axes[0].plot(time[part], 1e3 * latency[part], color=colour, label=protocol)
        axes[1].plot(time[part], counts[part], color=colour)
    axes[0].set(title="latency (ms)", xlabel="time (s)")
    axes[1].set(title=f"results per {1e3 * _SLOT:.0f} ms", xlabel="time (s)")
    axes[0].legend()
