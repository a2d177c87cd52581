"""Loads that policies are compared on, and how Autopilot is judged on them."""

import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.policies import Static
from penstock_lab import families
from penstock_lab.benches.autopilot import Compared, Trial, fixed, rivals, simulated, thinking
from penstock_lab.results import ResultsPage


@pytest.mark.parametrize("name", families.FAMILIES)
def test_a_family_is_drawn_from_its_seed(name):
    one, again, other = (families.load(name, 600.0, seed) for seed in (3, 3, 4))
    assert np.array_equal(one.arrivals, again.arrivals)
    assert not np.array_equal(one.arrivals[:100], other.arrivals[:100])
    assert one.seconds == 600.0
    assert one.arrivals[-1] <= 600.0


def test_a_load_that_is_not_there_is_named():
    with pytest.raises(PenstockError, match="flash-crowd"):
        families.load("flash-crowds")


def compared(late, peak):
    return Compared(Trial("steps", 1, 900.0), (late, 120.0), 3, (peak, 900.0), "Static 4", (0.02, 100.0))


def test_the_target_is_due_where_the_most_executors_keep_it():
    assert compared(0.05, 0.0).met
    assert not compared(0.051, 0.0).met
    assert compared(0.079, 0.07).met  # where even the most are late: a point more than they
    assert not compared(0.081, 0.07).met
    assert compared(0.05, 0.0).ratio == pytest.approx(1.2)


def test_whoever_takes_part_in_the_hindsight_has_a_name_of_its_own():
    names = [p.name for p in rivals()]
    assert {"Ds2", "Mpc", "Dhalion"} <= set(names)
    assert len(set(names)) == len(names)


def test_the_smallest_fixed_size_that_keeps_the_target_is_found_by_halving():
    trial = Trial("steps", 1, 300.0)
    found = fixed(trial, 0.05)
    smallest = min(size for size, outcome in found.items() if outcome.late <= 0.05)
    assert len(found) <= 5
    assert simulated(trial, Static(executors=smallest - 1)).late > 0.05


def test_rehearsals_are_judged_by_the_cpu_of_their_own_process():
    report = ResultsPage("", "")
    thinking(report, Trial("steps", 101, 60.0))
    ((seconds, steps, each, share),) = report.tables[0].rows
    assert steps == 12
    assert 0 < each < 60
    assert share == f"{steps * each / seconds:.1%}"
    assert report.claims[0].bound == "at most 10%"
