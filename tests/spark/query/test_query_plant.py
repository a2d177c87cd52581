"""A preference query as a plant: what it tells about itself, and what a policy can change."""

import math
from dataclasses import replace
from math import isnan
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core.capacity import Knob
from penstock.core.controller import Controller
from penstock.core.decision import Change, Decision
from penstock.core.journal import MemoryJournal
from penstock.policies import Fuzzy
from penstock.spark.query.figures import busy_share, stage_utilisation
from penstock.spark.query.outputs import QueryOutputs
from penstock.spark.query.program import QueryProgram
from penstock.spark.query.query_plant import QueryPlant
from penstock.spark.runtime.engine import BatchRows, Effort, JobsEngine
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.program import Batch
from penstock.spark.runtime.worker_room import Room
from penstock.testing.frames import InProcessFrame, InProcessSession
from penstock.testing.query_run import start_query_in_process
from tuned_splitting import STRATEGY, busy, check_tuned

SCHEMA = pa.schema([("t", pa.float64()), ("x", pa.float64()), ("y", pa.float64())])


class AskFor:
    """A policy that always wants the same numbers of workers."""

    name = "AskFor"

    def __init__(self, **workers: int) -> None:
        self.workers = workers

    def start(self) -> None:
        return None

    def step(self, state, observation):
        changes = tuple(Change(Knob.WORKERS, stage, n) for stage, n in self.workers.items())
        return state, Decision(changes, "because the test says so")


@pytest.fixture
def query_run(tmp_path):
    """Run batches of a query in this process; gives program, outcomes and journal."""
    (tmp_path / "state").mkdir()

    def run(policy=None, batches=4, rows=200, period=1.0):
        journal = MemoryJournal()
        query = ps.PreferenceQuery(
            ps.skyline_of(ps.minimize("x"), ps.minimize("y")),
            time="t",
            window="1 second",
            slide="0.5 seconds",
            pane_workers=1,
            window_workers=1,
        )
        outputs = QueryOutputs(
            OutputFolder.made(tmp_path, "output"), OutputFolder.made(tmp_path / "dead", "dead-letter")
        )
        program = QueryProgram(query, SCHEMA, outputs, period)
        plant = QueryPlant(program)
        program.listeners.add(plant.put)
        controller = Controller(plant, policy, journal=journal)
        state, outcomes, rng = program.first_state(), [], np.random.default_rng(2)
        for number in range(batches):
            columns = [number + np.sort(rng.random(rows)), rng.random(rows), rng.random(rows)]
            frame = InProcessFrame([[pa.record_batch([pa.array(c) for c in columns], schema=SCHEMA)]])
            batch = Batch(
                number,
                BatchRows(frame=frame),
                JobsEngine(InProcessSession()),
                InProcessSession(),
                state,
                str(tmp_path / "state"),
                str(number),
                1000.0 + number,
            )
            outcome = program.run_batch(batch)
            program.committed(batch, outcome, 0.2, None)
            controller.step()
            state = outcome.state
            outcomes.append(outcome)
        return SimpleNamespace(program=program, outcomes=outcomes, journal=journal)

    return run


def test_every_batch_is_an_observation_of_both_stages(query_run):
    done = query_run()
    tables = done.journal.tables()
    assert len(tables.observations["time"]) == 4
    assert set(tables.stage("panes")["tuples_in"]) == {200.0}
    assert all(tables.stage("windows")["workers_observed"] == 1)
    progress = done.outcomes[-1].progress
    assert progress["windows"] == 2
    assert 0 < progress["filter_ratio"] < 1
    assert progress["splitting"] == 1.0
    assert progress["window_latency"] > 0
    assert progress["totals"]["rows"] == 800


def test_a_batch_without_rows_is_told_without_numbers_that_are_not_there(query_run):
    done = query_run(batches=1, rows=0)
    progress = done.outcomes[0].progress
    assert progress["rows"] == 0
    assert isnan(progress["window_latency"])
    assert progress["utilisation_panes"] == 0.0


def test_a_policy_changes_the_workers_of_the_next_batch(query_run):
    done = query_run(AskFor(panes=3, windows=2))
    assert [o.progress["pane_workers"] for o in done.outcomes] == [1, 3, 3, 3]
    assert [o.progress["window_workers"] for o in done.outcomes] == [1, 2, 2, 2]
    decided = [r for r in done.journal.records if r["kind"] == "reconfiguration"]
    assert len(decided) == 1
    assert "because the test says so" in done.journal.texts("decision")


def test_what_a_query_cannot_do_is_refused_in_words(query_run):
    plant = QueryPlant(query_run(batches=1).program)
    with pytest.raises(ps.PenstockError, match="No micro-batch"):
        plant.observe()
    done = query_run(AskFor(nowhere=2))
    assert any("refused" in text for text in done.journal.texts())
    assert {o.progress["pane_workers"] for o in done.outcomes} == {1}


def test_the_fuzzy_controller_gives_a_query_that_falls_behind_another_worker(query_run):
    """Workers that are busy all the time say how far behind they are: at a utilisation of 1 rounding would pin them."""
    done = query_run(batches=1)
    plant, seconds, now = QueryPlant(done.program, Room(lambda: 4.0)), 1.0, 1000.0
    controller = Controller(plant, Fuzzy(interval=2.0))
    for _ in range(4):
        seconds, interval = 1.3 * seconds, seconds
        now += seconds
        figures = replace(done.outcomes[0].figures, seconds=seconds, committed=now, interval=interval)
        plant.put(figures.on_workers(Effort({0: {0: seconds - 0.02}}, active=seconds - 0.01)))
        controller.step()
    assert done.program.workers > (1, 1)


def test_the_fuzzy_controller_gives_a_query_that_stays_behind_another_worker(query_run):
    """As many rows come as are worked off, and five seconds of them wait: nothing grows, and nothing gets better."""
    done = query_run(batches=1, period=0.2)
    plant, now = QueryPlant(done.program, Room(lambda: 4.0)), 1000.0
    controller = Controller(plant, Fuzzy())
    for _ in range(3):
        now += 2.0
        figures = replace(
            done.outcomes[0].figures, rows=8000, seconds=2.0, committed=now, interval=2.0, backlog=20_000.0
        )
        plant.put(figures.on_workers(Effort({0: {0: 1.98}}, active=1.99), more=0.0))
        controller.step()
    assert done.program.workers > (1, 1)


@given(st.floats(0.1, 5.0), st.floats(0.0, 3.0), st.floats(0.1, 3.0))
def test_what_waits_is_work_until_it_is_gone(trigger, arrival_rho, behind):
    """More that waits is never less to do; the rows of a trigger alone are none that wait."""
    seconds = max(arrival_rho, 0.2) * trigger
    arrived = seconds / max(arrival_rho, 1e-3)
    shares = [busy_share([seconds], trigger, seconds, seconds, arrived, w) for w in (0.0, behind, 2 * behind)]
    assert shares[0] == pytest.approx(seconds / max(trigger, arrived))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] - shares[1] == pytest.approx(shares[1] - shares[0])


def test_the_fuzzy_controller_runs_on_a_query(query_run):
    done = query_run(Fuzzy(), batches=6)
    assert len(done.journal.texts("decision")) >= 1


@pytest.mark.parametrize(
    ("rows", "busy", "expected"),
    [([100], [0.5], 0.5), ([100], [3.0], 3.0), ([50, 50], [0.5, 0.5], 0.5), ([], [], 0.0)],
)
def test_utilisation_is_the_work_of_a_period_over_the_period(rows, busy, expected):
    assert stage_utilisation(rows, busy, 1.0) == pytest.approx(expected)


def test_an_uneven_load_counts_more_than_an_even_one():
    assert stage_utilisation([90, 10], [0.9, 0.1], 1.0) > stage_utilisation([50, 50], [0.5, 0.5], 1.0)


def test_stages_on_the_same_resident_workers_have_the_share_of_time_in_which_those_are_busy(query_run):
    figures = replace(query_run(batches=1, period=1.0).outcomes[0].figures, seconds=2.1, committed=1.0)
    overloaded = figures.on_workers(Effort({0: {0: 1.9, 1: 1.0}}, active=1.9))
    assert (overloaded.utilisation_panes, overloaded.utilisation_windows) == (1.0, 1.0)
    behind = replace(figures, interval=1.5).on_workers(Effort({0: {0: 1.9, 1: 1.0}}, active=1.9))
    assert behind.utilisation_windows == pytest.approx(
        1.9 / 1.3
    )  # the rows of 1.5 s, of which 0.2 s are the driver's
    capped = replace(figures, rows=100).on_workers(Effort({0: {0: 1.9}}, active=1.9), more=50)
    assert capped.utilisation_panes == pytest.approx(1.9 / 1.2)  # half as many again came and wait
    idle = replace(figures, seconds=0.2).on_workers(Effort({0: {0: 0.05, 1: 0.0}}, active=0.1))
    assert idle.utilisation_panes == pytest.approx(0.05 / 0.9)
    apart = replace(figures, seconds=0.5).on_workers(
        Effort({0: {0: 0.4}, 1: {1: 0.1}}, active=0.4), apart=True
    )
    assert apart.utilisation_panes > 4 * apart.utilisation_windows * 0.99
    without = replace(figures, seconds=0.5).on_workers(Effort({0: {0: 0.4}}, active=0.4), apart=True)
    assert (
        without.utilisation_windows == 0.0
    )  # no window was due: their workers idled, whatever the panes did
    at_once = replace(figures, trigger=None).on_workers(Effort({0: {0: 1.9, 1: 0.0}}, active=1.9))
    assert (
        at_once.utilisation_panes < 0.5
    )  # batches without a pause do not make any number of workers look busy


def test_windows_are_as_busy_as_from_one_that_ended_to_the_next(query_run):
    """Between two windows their workers idle; a batch that reads 0 would halve them, over and over."""
    done = query_run(batches=1)
    figures, plant, told = done.outcomes[0].figures, QueryPlant(done.program), []
    for second, (windows, rho, workers) in enumerate(
        [(0, 0.0, 4), (0, 0.0, 4), (1, 1.2, 4), (0, 0.0, 4), (0, 0.0, 4), (0, 0.0, 2), (1, 0.9, 2)]
    ):
        seen = replace(
            figures, windows=windows, utilisation_windows=rho, window_workers=workers, seconds=0.2, committed=1000.0 + second
        )  # fmt: skip
        plant.put(replace(seen, seconds=1.0) if second == 0 else seen)
        told.append(plant.reports()[0].observation.stage("windows").utilisation)
    assert all(map(isnan, told[:2]))  # none has ended yet
    assert told[2:5] == pytest.approx([0.4, 0.4, 0.4])
    assert told[5] == pytest.approx(0.8)  # half as many workers have twice as much to do
    assert told[6] == pytest.approx(0.9 / 4)


def test_a_batch_that_outlasts_its_trigger_counts_once_in_how_busy_windows_are(query_run):
    """3 s of work for a window every 5 s, at a trigger of 1 s: 0.6 busy, not 3 times the seconds of that batch."""
    done = query_run(batches=1)
    plant, now = QueryPlant(done.program), 1000.0
    for _ in range(2):
        for seconds, windows, rho in [(3.8, 1, 3.0), (0.4, 0, 0.0), (0.4, 0, 0.0), (0.4, 0, 0.0)]:
            now += seconds
            figures = replace(
                done.outcomes[0].figures, windows=windows, utilisation_windows=rho, window_workers=1
            )
            plant.put(replace(figures, seconds=seconds, committed=now, trigger=1.0))  # fmt: skip
    told = [r.observation.stage("windows").utilisation for r in plant.reports()]
    assert told[-1] == pytest.approx(3.0 / 5.0)


def test_without_a_trigger_engine_jobs_tell_what_of_a_batch_the_pane_workers_worked(query_run):
    """By the busiest worker alone it was 1, however many workers there were."""
    done = query_run(batches=2, period=None)
    assert all(0.0 < o.figures.utilisation_panes < 0.9 for o in done.outcomes)


def test_figures_of_batches_in_between_count_and_not_only_those_of_the_last(query_run):
    """A policy that decides every other batch gets the mean of both."""
    done = query_run(batches=4)
    plant = QueryPlant(done.program)
    figures = [replace(o.figures, seconds=0.2, committed=1000.0 + o.figures.batch) for o in done.outcomes]
    plant.put(replace(figures[2], utilisation_windows=0.8))
    plant.put(replace(figures[3], utilisation_windows=0.0))
    seen = plant.observe()
    assert seen.stage("windows").utilisation == pytest.approx(
        0.8 / 1.2
    )  # of a trigger of 1 s, in 0.2 s and 1 s
    assert seen.stage("panes").tuples_in == 400


def test_periods_of_batches_follow_each_other_however_long_the_first_took(query_run):
    done = query_run(batches=3)
    plant = QueryPlant(done.program)
    ends = [(64.3, 64.3), (86.0, 21.7), (87.0, 0.4)]
    for outcome, (end, seconds) in zip(done.outcomes, ends, strict=True):
        plant.put(replace(outcome.figures, seconds=seconds, committed=1000.0 + end))
    periods = [r.observation.period for r in plant.reports()]
    assert periods == pytest.approx([64.3, 21.7, 1.0])


class Shed(AskFor):
    def step(self, state, observation):
        return state, Decision((Change(Knob.SHEDDING, "panes", 0.25),), "the test says so")


def test_a_policy_sheds_an_even_share_of_the_rows_from_the_next_batch_on(query_run):
    done = query_run(Shed(), batches=4)
    assert [o.progress["shed"] for o in done.outcomes] == [0, 50, 50, 50]  # a quarter of 200
    assert done.outcomes[-1].progress["totals"]["shed"] == 150
    seen = done.journal.tables()
    assert seen.observations["shed_share"].tolist() == [0.0, 0.25, 0.25, 0.25]
    assert not [text for text in done.journal.texts() if "refused" in text]


def test_a_policy_is_held_to_the_slots_of_the_application(query_run):
    done = query_run(batches=1)
    plant = QueryPlant(done.program, Room(lambda: 2.0, "there are no others"))
    plant.put(replace(done.outcomes[0].figures, seconds=0.2, committed=1000.0))
    step = Controller(plant, AskFor(panes=300_000)).step()
    assert done.program.workers == (2, 1)
    assert "by the 2 slots of the application; there are no others" in step.notes[0]


def test_nothing_shrinks_while_rows_that_wait_at_the_source_are_worked_off(query_run):
    done = query_run(batches=1)
    done.program.target = (2, 2)
    plant = QueryPlant(done.program, Room(lambda: 4.0))
    journal = MemoryJournal()
    controller = Controller(plant, AskFor(panes=1), journal=journal)
    figures = replace(
        done.outcomes[0].figures, pane_workers=2, window_workers=2, seconds=0.2, committed=1000.0, arrival_rate=200.0
    )  # fmt: skip
    plant.put(replace(figures, backlog=5000.0))
    controller.step()
    assert done.program.workers == (2, 2)
    assert any("backlog of 5000" in str(record) for record in journal.records)
    plant.put(replace(figures, backlog=5000.0, committed=1000.5))
    Controller(plant, AskFor(windows=1)).step()
    assert done.program.workers == (2, 2)  # nor do windows, which get those rows next
    plant.put(replace(figures, committed=1001.0, backlog=100.0))
    controller.step()
    assert done.program.workers == (1, 2)


def test_rows_that_a_limit_for_batches_holds_back_have_arrived_too(query_run, monkeypatch):
    done = query_run(batches=1)
    heard = []
    done.program.listeners.add(heard.append)
    outcome = replace(
        done.outcomes[0], figures=replace(done.outcomes[0].figures, rows=1000, arrival_rate=1000.0)
    )
    for second, left in enumerate((0.0, 500.0, 1000.0, math.nan)):
        monkeypatch.setattr("penstock.spark.query.program.time.time", lambda now=1000.0 + second: now)
        done.program.committed(SimpleNamespace(left=left), outcome, 0.2, None)
    assert [figures.arrival_rate for figures in heard] == [1000.0, 1500.0, 1500.0, 1000.0]


def test_a_listener_that_raises_costs_a_warning_and_no_batch(query_run, caplog):
    done = query_run(batches=1)
    heard = []
    done.program.listeners.add(lambda figures: 1 / 0)
    done.program.listeners.add(lambda figures: heard.append(figures.batch))
    done.program.committed(SimpleNamespace(left=math.nan), done.outcomes[0], 0.2, None)
    assert heard == [0]
    assert "ZeroDivisionError" in caplog.text


def test_a_relay_experiment_goes_on_over_restarts_and_its_gains_are_used(tmp_path):
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("x"), ps.minimize("y")), "t", "100 milliseconds",
        splitting=STRATEGY, pane_workers=1, window_workers=1,
    )  # fmt: skip
    rng, states = np.random.default_rng(1), []
    for life in range(4):
        run = start_query_in_process(query, SCHEMA, tmp_path)
        run._program.trigger = 1e-5  # whatever has rows is too much for it, on any machine
        for number in range(6 * life, 6 * life + 6):
            rows = 50 if busy(number) else 0
            columns = [number + np.sort(rng.random(rows)), rng.random(rows), rng.random(rows)]
            run.feed(pa.table([pa.array(c) for c in columns], schema=SCHEMA), 1)
            states.append(run.state["splitting"])
        run.finish()
    check_tuned(states)
