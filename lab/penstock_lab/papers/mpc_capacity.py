"""MPC 5.2.1: the highest rate by replicas and by keys, and what the elastic support costs (Figs. 8 and 9)."""

import time as clock
from typing import Any

import numpy as np

from penstock.core.controller import Controller
from penstock.core.guards import Guards
from penstock.policies import Mpc, Static
from penstock.sim.plants.operator.partitioned_operator import PartitionedOperator
from penstock.sim.plants.operator.triggers import Triggers
from penstock_lab.judging import falling, judged, near, within
from penstock_lab.papers.mpc_runs import KEYS, MOST, SLIDE
from penstock_lab.results import ResultsPage, Table

#: Quotes a second that no number of replicas can take: the input is as fast as it can be.
OFFERED = 1_200_000.0
SECONDS, WARM = 6.0, 2.0
#: Fig. 9: keys, and the scalability that the paper prints over its bars is "roughly similar" for all.
KEY_COUNTS = (KEYS, 5_000, 10_000, 25_000, 100_000)


def capacity(report: ResultsPage) -> None:
    """Figs. 8 and 9."""
    rates = {n: _highest(n, KEYS) for n in (1, 2, 4, 6, 8, 10, MOST)}
    share = _control_share()
    report.tables.append(
        Table(
            "Fig. 8: highest input rate by replicas (2,836 keys, 2 GHz)",
            ("replicas", "1000 quotes/s", "times one replica"),
            [[n, r / 1e3, r / rates[1]] for n, r in rates.items()],
            "Paper: 12 replicas take 12.91 times the rate of one (12.56 with the elastic support), a little more than 12 by its caches, which the simulator does not have.",
        )
    )
    report.claim(
        "Fig. 8: scalability of twelve replicas", "12.56 to 12.91", f"{rates[MOST] / rates[1]:.2f}", near((rates[MOST] / rates[1], 12.56), share=0.05, form=".4g")
    )  # fmt: skip
    report.claim(
        "Fig. 8: overhead of the elastic support", "3-4 %", f"one step takes {share:.2%} of its second on one core",
        judged(share <= 0.04, "at most 4 % of one core; simulated replicas are not slowed by it"),
    )  # fmt: skip
    rows = []
    for keys in KEY_COUNTS:
        one, twelve = _highest(1, keys), _highest(MOST, keys)
        rows.append([keys, one / 1e3, twelve / 1e3, twelve / one])
    report.tables.append(
        Table(
            "Fig. 9: highest input rate by number of keys",
            ("keys", "1 replica (1000 quotes/s)", "12 replicas", "scalability"),
            rows,
        )
    )
    scales = [r[3] for r in rows]
    report.claim(
        "Fig. 9: the scalability is about the same for all numbers of keys", "roughly similar",
        ", ".join(f"{s:.1f}" for s in scales), within(0.9 * scales[0], 1.1 * scales[0], *scales),
    )  # fmt: skip
    report.claim(
        "Fig. 9: more keys lower the rate", "falling", ", ".join(f"{r[2]:.0f}" for r in rows), falling([r[2] for r in rows])
    )  # fmt: skip


def _stream(keys: int) -> Triggers:
    """Triggering tuples at a constant rate, keys drawn evenly."""
    rng = np.random.default_rng(3)
    count = int(OFFERED / SLIDE * SECONDS)
    return Triggers(
        np.linspace(0.0, SECONDS, count, endpoint=False), rng.integers(0, keys, count).astype(np.int32), keys, SECONDS, SLIDE
    )  # fmt: skip


def _highest(replicas: int, keys: int) -> float:
    """Quotes a second that so many replicas take when there is always more."""
    plant = PartitionedOperator(_stream(keys), workers=replicas, limit=MOST, seed=3)
    loop: Controller[Any] = Controller(plant, Static(), Guards(catch_up=None))
    while plant.now() < SECONDS:
        plant.wait_until(plant.now() + 1.0)
        loop.step()
    done = plant.departures
    return float(((done > WARM) & (done <= SECONDS)).sum()) * SLIDE / (SECONDS - WARM)


def _control_share() -> float:
    """CPU of observing and deciding once, over the second that passes between two steps."""
    plant = PartitionedOperator(_stream(KEYS), workers=6, limit=MOST, seed=3)
    loop: Controller[Any] = Controller(plant, Mpc(workers=(1, MOST), horizon=3), Guards())
    spent = []
    while plant.now() < SECONDS:
        plant.wait_until(plant.now() + 1.0)
        begun = clock.process_time()
        loop.step()
        spent.append(clock.process_time() - begun)
    return float(np.median(spent))
