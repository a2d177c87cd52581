"""The workload monitor of an attached query: half an hour of bursts asks for as much as half an hour of bursts needs."""

import numpy as np
import pytest

from penstock.core import Knob
from penstock.core.capacity import Capacity
from penstock.core.observation import Observation, StageObservation
from penstock.models import fit_map2
from penstock.policies import Mead, Static
from penstock.sim import SparkCosts, SparkLike
from penstock.sim.closed_loop import run_policy
from penstock.spark.attach.batch_history import SeenBatch, arrival_times

RATE, SERVICE, OVERHEAD, TARGET, SECONDS = 600.0, 0.005, 0.2, 6.0, 1800


@pytest.fixture(scope="module")
def arrivals():
    """600 rows a second with an index of dispersion of 6,000."""
    process = fit_map2(1 / RATE, dispersion=6000.0)
    times = np.cumsum(process.sample(int(1.5 * RATE * SECONDS), np.random.default_rng(3)))
    return times[times < SECONDS]


def needed(arrivals):
    """The fewest executors that meet the target, tuple by tuple."""
    costs = SparkCosts(overhead=OVERHEAD, row_cost=SERVICE, noise=0.0, warm_up=0.0)
    for count in range(3, 17):
        plant = SparkLike(arrivals, costs, executors=count, limit=32)
        if run_policy(plant, Static(executors=count), 10.0, float(SECONDS)).response_p95 <= TARGET:
            return count
    return 17


def chosen(arrivals, trigger=1.0):
    counts = np.bincount(arrivals.astype(int), minlength=SECONDS)
    seen = arrival_times([SeenBatch(i, float(i), 0.5, int(n), 1.0) for i, n in enumerate(counts)], trigger)
    assert seen.rows > 10  # a million rows do not fit into the monitor
    stage = StageObservation(
        "q",
        Capacity.steady(8),
        arrival_rate=float(counts.mean()),
        interarrivals=seen.gaps,
        interarrival_rows=seen.rows,
        service_time=SERVICE,
        trigger=trigger,
        overhead_time=OVERHEAD,
    )
    observation = Observation(float(SECONDS), 10.0, (stage,), executors=Capacity.steady(8, 16), slots=8.0)
    policy = Mead(
        target=TARGET, percentile=0.95, knob=Knob.EXECUTORS, replicas=tuple(range(1, 17)), down=None,
        best=2, windows=1, max_states=8,
    )  # fmt: skip
    return policy.step(policy.start(), observation)[1].number(Knob.EXECUTORS, "", 8)


def test_half_an_hour_of_bursts_ends_with_the_right_number_of_slots(arrivals):
    assert abs(chosen(arrivals) - needed(arrivals)) <= 1


def test_so_does_one_whose_batches_follow_each_other_at_once(arrivals):
    """Gaps of groups were taken for those of single rows, so that half an hour of bursts looked like less than a minute."""
    assert abs(chosen(arrivals, trigger=0.0) - needed(arrivals)) <= 2
