"""What ``penstock bench elastic`` makes of its runs."""

from math import inf, isnan

import pytest

from penstock.core.errors import PenstockError
from penstock.dataflow.plan import Plan, RegionPlan
from penstock.spark.flow.profile import Profile
from penstock_lab import cell_runs
from penstock_lab.benches import (
    elastic,
    elastic_flow_run,
    elastic_flows,
    elastic_logs,
    elastic_paced,
    elastic_paced_run,
    elastic_query,
    elastic_query_run,
)
from penstock_lab.benches.elastic_judging import Goal, Judge, judge_against_fixed, static_peak
from penstock_lab.benches.elastic_watch import Watched, over_time, policy_of, watched
from penstock_lab.cell_runs import Cell, CellRuns
from penstock_lab.results import ResultsPage

GOAL = Goal("delay", "delay P95", 1.0)
ALL = [*elastic_query.cells(5_000.0), *elastic_flows.cells(), *elastic_paced.cells(), *elastic_logs.cells()]


@pytest.fixture(autouse=True)
def steady_machine(monkeypatch):
    """Other tests run beside these."""
    for module in (cell_runs, elastic):
        monkeypatch.setattr(module, "plain_loop", lambda: 0.3)


def kept(folder, runs=3):
    return CellRuns(folder, inf, runs)


def cell(way, load="steps"):
    return Cell("query", load, way)


def filled(runs, figures):
    """Runs of cells by their way: (delay, worker-seconds) of each run."""
    cells = [cell(way) for way in figures]
    for one in cells:
        found = figures[one.way]
        runs.fill([one], lambda _, n, f=found: {"delay": f[n][0], "worker_seconds": f[n][1]}, len(found))
    return cells


def judged(folder, figures):
    """The claims on ``Fuzzy``."""
    runs, page = kept(folder), ResultsPage("", "")
    judge_against_fixed(page, runs, filled(runs, figures), "Fuzzy", GOAL)
    return page.claims


@pytest.mark.parametrize(
    ("policy", "holds"),
    [
        ((0.5, 90.0), [True, True, True, True]),
        ((1.5, 90.0), [False, True, True, True]),
        ((0.5, 120.0), [True, False, True, True]),
        ((0.9, 200.0), [True, False, False, False]),
    ],
)
def test_an_elastic_policy_is_judged_by_target_peak_and_threshold(tmp_path, policy, holds):
    """The peak is the largest fixed number of workers, whatever else is fixed."""
    figures = {"TB_RR, 2 fixed": (0.1, 10.0), "1 fixed": (9.0, 60.0), "3 fixed": (0.2, 180.0)}
    figures |= {"Fuzzy": policy, "Threshold": (0.8, 130.0)}
    claims = judged(tmp_path, {way: [found] * 3 for way, found in figures.items()})
    assert [c.holds for c in claims] == holds
    assert "3 fixed" in claims[1].text


def test_the_static_peak_is_the_largest_number_and_not_the_last_word():
    assert (
        static_peak([cell("3 fixed"), cell("10 fixed"), cell("AS, 99 fixed"), cell("Fuzzy")]).way
        == "10 fixed"
    )


def test_every_judged_load_has_every_fixed_number_and_the_threshold():
    for load in {c.load for c in elastic_query.cells(5_000.0)}:
        own = [c for c in elastic_query.cells(5_000.0) if c.load == load]
        assert {"1 fixed", "2 fixed", "3 fixed", "Fuzzy", "Threshold"} <= {c.way for c in own}
        assert static_peak(own).way == "3 fixed"


def test_ways_are_judged_run_by_run(tmp_path):
    """Runs differ more from each other than the ways do, but the policy is behind in every one of them."""
    behind = [(n / 10 + 0.05, 100.0 * n + 10.0) for n in (1, 2, 3)]
    other = [(n / 10, 100.0 * n) for n in (1, 2, 3)]
    claims = judged(tmp_path, {"3 fixed": [(0.1, 900.0)] * 3, "Fuzzy": behind, "Threshold": other})
    assert [c.holds for c in claims] == [True, True, False, True]
    assert "+0.05" in claims[2].measured
    assert "(worse)" in claims[2].measured


def test_a_target_is_met_where_every_run_meets_it(tmp_path):
    runs = [(0.1, 50.0), (0.2, 50.0), (1.01, 50.0)]
    claims = judged(tmp_path, {"3 fixed": [(0.1, 900.0)] * 3, "Fuzzy": runs, "Threshold": runs})
    assert not claims[0].holds
    assert "at worst 1.01" in claims[0].measured


def test_a_policy_is_held_against_the_fewest_workers_that_meet_the_target(tmp_path):
    """Beside a peak that nobody needs anything saves."""
    figures = {
        "1 fixed": (9.0, 60.0),
        "2 fixed": (0.5, 80.0),
        "3 fixed": (0.2, 180.0),
        "Threshold": (0.5, 90.0),
    }
    for cost, holds in ((70.0, True), (85.0, False)):
        found = figures | {"Fuzzy": (0.5, cost)}
        folder = tmp_path / str(cost)
        folder.mkdir()
        claims = judged(folder, {way: [one] * 3 for way, one in found.items()})
        assert "2 fixed" in claims[3].text
        assert claims[3].holds is holds


def test_what_has_too_few_runs_does_not_pass_and_says_so(tmp_path):
    claims = judged(
        tmp_path, {"3 fixed": [(0.1, 900.0)] * 3, "Fuzzy": [(0.1, 1.0)] * 3, "Threshold": [(9.0, 900.0)] * 2}
    )
    assert [c.holds for c in claims] == [True, True, False, True]
    assert "2 of 3 runs of Threshold" in claims[2].measured


def test_nothing_is_judged_before_it_was_run(tmp_path):
    page = ResultsPage("", "")
    own = [cell("3 fixed"), cell("Fuzzy"), cell("Threshold")]
    judge_against_fixed(page, kept(tmp_path), own, "Fuzzy", GOAL)
    assert page.claims == []


def test_cells_have_names_of_their_own():
    assert len({c.name for c in ALL}) == len(ALL)
    assert all("/" not in c.name for c in ALL)


def test_specifications_hold_all_constants_and_make_the_policies():
    assert all({"seconds", "warm_up"} <= set(c.spec) for c in ALL)
    assert all({"rate", "share", "load", "seeds"} <= set(c.spec) for c in ALL if c.part != "flows")
    names = {type(policy_of(c.spec)).__name__ for c in ALL}
    assert names == {"NoneType", "Fuzzy", "Threshold", "Organic", "Mpc", "Mead"}


def test_another_rate_of_one_worker_makes_other_cells():
    assert elastic_query.cells(5_000.0)[0].spec != elastic_query.cells(6_000.0)[0].spec


def test_the_best_by_hand_stays_the_best_of_the_first_runs(tmp_path):
    runs, rates = kept(tmp_path), {"1 1": [1.0], "1 2": [5.0, 2.0, 2.0], "2 1": [4.0], "2 2": [3.0]}
    cells = [Cell("flows", "a chain", way) for way in rates]
    for one in cells:
        runs.fill([one], lambda c, n: {"rate": rates[c.way][n]}, len(rates[one.way]))
    assert [c.way for c in elastic_flows.best_and_worst(runs, cells)] == ["1 2", "1 1"]


def test_an_unknown_part_is_refused(tmp_path):
    with pytest.raises(PenstockError, match="query"):
        elastic.run(True, tmp_path, part="moon")


def test_a_quick_look_keeps_nothing(tmp_path, monkeypatch):
    def add(page, runs, quick):
        runs.fill([cell("1 fixed")], lambda *_: {"delay": 1.0})

    monkeypatch.setattr(elastic_paced, "add", add)
    elastic.run(True, tmp_path, part="paced")
    assert list(tmp_path.iterdir()) == []
    elastic.run(False, tmp_path, part="paced")
    assert list((tmp_path / "elastic").iterdir())


# -- what a run comes to


def over(seen, before=(), after=(), began=100.0, ended=160.0):
    return Watched(list(before), list(seen), list(after), began, ended)


def profile(started, seconds, rows, replicas=1, left=float("nan")):
    plan = Plan(regions={"op": RegionPlan(replicas)})
    return Profile(0, started, seconds, rows, 0, 0, {}, {}, {}, plan, left=left)


def test_what_changes_in_steps_counts_for_as_long_as_it_holds():
    assert over_time([(0.0, 1.0), (110.0, 2.0), (150.0, 1.0)], 100.0, 160.0) == 10 + 80 + 10
    assert over_time([(0.0, 3.0)], 100.0, 160.0) == 180.0
    assert over_time([(0.0, 1.0), (200.0, 9.0)], 100.0, 160.0) == 60.0


def test_a_batch_that_does_not_end_counts_as_delay_and_as_replicas():
    """One batch ends in time; the next takes for ever while 100 tuples a second come."""
    run = over([profile(99.5, 0.5, 50, 2, 50.0)], before=[profile(99.0, 0.5, 50, 2)])
    found = elastic_paced_run.figures_of(run, "op")
    assert found["worker_seconds"] == pytest.approx(120.0)
    assert elastic_paced_run.waiting(run) == pytest.approx(100 * 60.5)
    assert found["delay_p95"] == pytest.approx(0.95 * 60.5, rel=0.03)
    assert found["delay_mean"] == pytest.approx(60.5 / 2, rel=0.05)


def test_a_run_of_which_no_batch_ended_in_time_has_figures():
    run = over([], before=[profile(98.0, 1.0, 100, 1, 100.0)])
    found = elastic_paced_run.figures_of(run, "op")
    assert found["worker_seconds"] == pytest.approx(60.0)
    assert found["delay_p95"] == pytest.approx(0.95 * 62.0, rel=0.03)
    assert found["processed"] == 0.0


def test_a_flow_that_keeps_up_has_the_delays_of_its_batches():
    batches = [profile(99.5 + n / 2, 0.2, 50, 1, 20.0) for n in range(121)]
    found = elastic_paced_run.figures_of(over(batches[1:], before=batches[:1]), "op")
    assert found["delay_p95"] == pytest.approx(0.2 + 0.95 * 0.5, rel=0.03)
    assert found["delay_mean"] == pytest.approx(0.45, rel=0.01)


def test_tuples_that_were_held_back_at_the_source_waited_there():
    """Each batch takes the 50 tuples of half a second, and 200 are there before them: two seconds' worth."""
    batches = [profile(99.5 + n / 2, 0.2, 50, 1, 220.0) for n in range(121)]
    found = elastic_paced_run.figures_of(over(batches[1:], before=batches[:1]), "op")
    assert found["delay_mean"] == pytest.approx(2.45, rel=0.05)


def answered(at, lags, workers=(1, 1), seconds=0.1):
    """A batch whose windows had such lags, the first of them the largest."""
    mean = sum(lags) / len(lags) if lags else float("nan")
    told = {"answer_lag": mean, "answer_lag_max": max(lags, default=float("nan")), "windows": len(lags)}
    shares = {"utilisation_panes": 0.5, "utilisation_windows": 0.2, "interval": 0.2}
    sizes = {"pane_workers": workers[0], "window_workers": workers[1]}
    return {"at": at, "seconds": seconds, "rows": 10, "backlog": 0.0, **told, **shares, **sizes}


def test_windows_given_out_together_have_each_its_own_lag():
    run = over([answered(160.0, [4.0, 3.8, 3.6, 3.4])], before=[answered(99.0, [0.1])])
    assert elastic_query_run.lags_of(run)[:4] == pytest.approx([4.0, 3.8, 3.6, 3.4])


def test_windows_that_are_due_and_have_not_come_count_with_their_age():
    """The last answer is of a window that was due at 129.9; at 160 it is 150 windows later."""
    run = over([answered(130.0, [0.1])], before=[answered(99.0, [0.1])])
    lags = elastic_query_run.lags_of(run)
    assert len(lags) == 1 + 150
    assert max(lags) == pytest.approx(29.9)
    found = elastic_query_run.figures_of(run)
    assert found["lag_p95"] > 28
    assert found["worker_seconds"] == pytest.approx(60.0)


def test_a_query_without_any_answer_is_late_since_its_time_began():
    run = over([answered(130.0, [])], before=[answered(99.0, [])])
    assert max(elastic_query_run.lags_of(run)) == pytest.approx(59.8)


def test_the_workers_of_a_query_count_from_the_start_of_their_batch():
    run = over([answered(130.0, [0.1], (2, 3), 10.0)], before=[answered(99.0, [0.1])])
    assert elastic_query_run.figures_of(run)["worker_seconds"] == pytest.approx(20 * 1 + 40 * 3)
    assert elastic_query_run.figures_of(run)["changes"] == 1.0


def test_the_rate_of_a_flow_is_that_of_the_second_half_of_its_time():
    slow, fast = [(10, float(n)) for n in range(11)], [(10, 10.0 + n / 10) for n in range(1, 101)]
    assert elastic_flow_run.rate_of([*slow, *fast], 20.0) == pytest.approx(100.0, rel=0.01)


@pytest.mark.parametrize("ends", [[], [(10, 0.0)], [(10, 0.0), (10, 5.0)]])
def test_a_flow_that_ran_out_of_input_is_no_run(ends):
    with pytest.raises(RuntimeError, match="more batches"):
        elastic_flow_run.rate_of(ends, 20.0)


def test_decisions_that_tell_something_are_kept_with_a_run():
    def decision(time, reason, *changes):
        return {"kind": "decision", "time": time, "reason": reason, "changes": list(changes)}

    records = [
        {"kind": "run"},
        decision(0.51, "profiling, 1 of 6 observations"),
        decision(3.04, "a: 2 replicas, since a pipeline is 97% busy", ["workers", "a", 2]),
        decision(8.0, "kept: throughput a +60%"),
        decision(13.0, "undone: throughput of b +2%", ["workers", "b", 1]),
    ]
    told = elastic_flow_run.telling(records)
    assert [row[0] for row in told] == [3.0, 8.0, 13.0]
    assert told[0][1:] == ["a workers 2", "a: 2 replicas, since a pipeline is 97% busy"]


class Ending:
    """A run that is over at its third look."""

    def __init__(self, error):
        self.error, self.looks = error, 0

    @property
    def is_active(self):
        self.looks += 1
        return self.looks < 3

    def stop(self):
        raise AssertionError("there is nothing to stop")

    def await_termination(self, timeout=None):
        if self.error:
            raise self.error
        return True


@pytest.mark.parametrize("batches", [[], ["one"]])
@pytest.mark.parametrize("error", [ValueError("no such column"), None])
def test_a_run_that_ends_by_itself_is_no_run(batches, error):
    with pytest.raises(
        ValueError if error else RuntimeError, match="no such column" if error else "ended before"
    ):
        watched(Ending(error), batches, {"warm_up": 0.2, "seconds": 60.0})


def test_a_page_that_is_printed_again_has_the_seconds_of_its_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(elastic_logs, "run_paced", lambda *_: {"delay_mean": 1.0, "cpu": 0.5})
    monkeypatch.setattr(elastic_logs.cpu_share, "probe", lambda: type("Yes", (), {"works": True}))
    elastic.run(False, tmp_path, part="logs")
    runs = CellRuns(tmp_path / "elastic")
    again = elastic.run(False, tmp_path, part="logs", minutes=0)
    assert again.seconds == pytest.approx(runs.wall(elastic_logs.cells()))
    assert {c.verdict for c in again.claims} == {"pass", "differs"}


def test_figures_that_were_not_measured_are_no_claim(tmp_path):
    page = ResultsPage("", "")
    Judge(page, kept(tmp_path)).target(cell("Fuzzy"), GOAL)
    assert page.claims == []
    assert isnan(kept(tmp_path).differences(cell("Fuzzy"), cell("Threshold"), "delay").mean)
