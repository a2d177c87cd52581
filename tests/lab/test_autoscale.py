"""What the page of ways to scale says, from made-up runs, and how the figures of a run come about."""

import json

import numpy as np
import pytest

from penstock_lab.benches.autoscale import Loads, _outcome, cells_of, make_loads, row_delays
from penstock_lab.benches.autoscale_goals import MOST, OURS, judge
from penstock_lab.cell_runs import Cell, CellRuns
from penstock_lab.results import ResultsPage
from penstock_lab.trials.autoscale import AutoscaleTrial

LOAD = "MAP(2), I = 1000"


def kept_with(folder, **ways):
    """Runs of ways under one load: (P95, core-seconds) each."""
    kept, cells = CellRuns(folder), []
    for way, runs in ways.items():
        cells.append(Cell("autoscale", LOAD, MOST if way == "most" else way))
        figures = [
            {"p95": p95, "core_seconds": cores, "violations": 0.0, "changes": 1.0, "overhead": 0.01}
            for p95, cores in runs
        ]
        (folder / f"{cells[-1].name}.json").write_text(json.dumps(figures))
    return kept, cells


def claims(folder, **ways):
    report = ResultsPage("a test", "")
    judge(report, *kept_with(folder, **ways), 6.0)
    return {claim.text.removeprefix(f"{LOAD}: "): claim.holds for claim in report.claims}


def test_a_row_is_done_at_the_end_of_its_batch():
    assert row_delays(np.array([0.0, 1.0, 2.0]), [2, 1], np.array([3.0, 5.0])).tolist() == [3.0, 2.0, 3.0]


def test_rows_that_no_batch_took_are_as_late_as_the_end_of_the_trial():
    assert row_delays(np.array([0.0, 1.0, 2.0]), [1], np.array([4.0])).tolist() == [4.0, 3.0, 2.0]
    assert np.isinf(row_delays(np.array([0.0]), [], np.array([]))).all()


def test_an_outcome_counts_the_load_alone_not_the_warm_up():
    arrivals = np.array([0.5, 1.5, 4.5, 5.5, 6.5, 7.5])
    delays = np.array([50.0, 50.0, 1.0, 1.0, 9.0, 9.0])
    times, held = np.array([0.0, 2.0, 4.0, 6.0]), np.array([4.0, 4.0, 1.0, 3.0])
    trial = AutoscaleTrial("local", "mpc", "", "", target=6.0, period=2.0, share=0.5)
    outcome = _outcome("Mpc", (LOAD, 4.0, 8.0), arrivals, delays, times, held, trial, 0.01)
    assert (outcome.late, outcome.violations, outcome.slots) == (0.5, 1, 2)
    assert outcome.core_seconds == (1 + 3) * 2.0 * 0.5
    assert outcome.changes == 2
    assert outcome.p95 == 9.0
    assert (outcome.figures["late"], outcome.figures["violations"]) == (50.0, 50.0)


def test_one_load_comes_right_after_the_warm_up():
    loads = Loads(np.array([0.5, 2.5, 4.5, 5.0]), (("first", 2.0, 4.0), ("second", 4.0, 6.0)))
    second = loads.only("second")
    assert second.arrivals.tolist() == [0.5, 2.5, 3.0]
    assert second.parts == (("second", 2.0, 4.0),)
    whole = make_loads(5.0)
    counted = [len(whole.only(name).arrivals) for name in whole.names]
    warm = int((whole.arrivals < whole.parts[0][1]).sum())
    assert sum(counted) - (len(counted) - 1) * warm == len(whole.arrivals)


def test_a_call_that_is_ended_early_has_the_ways_that_tell_most():
    cells = cells_of(quick=False)
    first = len({cell.load for cell in cells}) * (1 + len(OURS))
    assert {cell.way for cell in cells[:first]} == {MOST, *OURS}
    assert cells[0].load == LOAD
    assert len({cell.name for cell in cells}) == len(cells)
    assert set(OURS) <= {cell.way for cell in cells}


def test_every_policy_is_held_to_the_same_claims(tmp_path):
    runs = [(3.0, 50.0), (3.1, 51.0), (3.0, 50.0)]
    found = claims(tmp_path, most=[(2.0, 100.0)] * 3, **dict.fromkeys(OURS, runs))
    for way in OURS:
        assert found[f"{way} meets the target"]
        assert found[f"{way} against the static maximum"]
        if way != "Threshold":
            assert found[f"{way} is not behind Threshold on both counts"]
    assert "Threshold is not behind Threshold on both counts" not in found


def test_claims_can_fail(tmp_path):
    found = claims(
        tmp_path, most=[(2.0, 100.0)] * 3, Threshold=[(3.0, 50.0)] * 3, Mpc=[(7.0, 70.0), (7.1, 71.0), (7.0, 72.0)]
    )  # fmt: skip
    assert not found["Mpc meets the target"]
    assert not found["Mpc against the static maximum"]
    assert not found["Mpc is not behind Threshold on both counts"]


def test_runs_are_compared_one_by_one_and_differences_within_their_spread_are_none(tmp_path):
    slow_hours = [(3.0, 40.0), (5.0, 60.0), (4.0, 50.0)]
    a_little_worse = [(p95 + 0.1, cores + 1.0) for p95, cores in slow_hours]
    assert not claims(tmp_path, Threshold=slow_hours, Mpc=a_little_worse)[
        "Mpc is not behind Threshold on both counts"
    ]
    now_better = [(3.5, 41.0), (4.5, 61.0), (4.1, 51.0)]
    assert claims(tmp_path, Threshold=slow_hours, Mpc=now_better)[
        "Mpc is not behind Threshold on both counts"
    ]


@pytest.mark.parametrize(("runs", "words"), [(1, " (1 run)"), (2, " (2 runs)"), (3, "")])
def test_a_claim_on_few_runs_says_how_many(tmp_path, runs, words):
    found = claims(tmp_path, most=[(2.0, 100.0)] * 3, Mead=[(3.0, 50.0)] * runs)
    assert set(found) == {
        f"Mead meets the target{words}",
        f"Mead against the static maximum{words}",
        "Controller overhead",
    }


def test_all_runs_of_a_way_count_where_the_maximum_was_run_once(tmp_path):
    runs = [(3.0, 50.0), (3.0, 50.0), (3.0, 100.0)]  # two thirds of the maximum on average
    found = claims(tmp_path, most=[(2.0, 100.0)], Mead=runs)
    assert found["Mead against the static maximum"] is False


def test_what_was_not_run_is_not_judged(tmp_path):
    assert claims(tmp_path) == {}
    one = claims(tmp_path, Threshold=[(3.0, 50.0)] * 3, Mpc=[(9.0, 90.0)])
    assert not any("Mpc is not behind" in text for text in one)
    assert "Mpc against the static maximum (1 run)" not in claims(tmp_path, Mpc=[(3.0, 50.0)])
