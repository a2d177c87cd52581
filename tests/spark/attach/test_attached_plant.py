"""Streaming queries as a plant, with executors and batches by hand."""

from datetime import UTC, datetime, timedelta
from math import inf, isnan, nan
from types import SimpleNamespace

import pytest

import sysfs
from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards, GuardState, check
from penstock.core.metrics import Metric
from penstock.policies import Static
from penstock.policies.autopilot.rehearsal import Meter, measured
from penstock.policies.own_process import OwnProcess
from penstock.policies.wishes import wished_late
from penstock.spark.actuators.executor_status import RegisteredExecutor
from penstock.spark.actuators.power import MachinePower
from penstock.spark.attach import attached_plant as module
from penstock.spark.attach import executor_groups
from penstock.spark.attach.attached_plant import AttachedPlant
from penstock.spark.attach.autoscaler import _figures
from penstock.spark.attach.executor_groups import ExecutorGroups, Ungrouped
from penstock.spark.attach.query_listener import QueryWatch
from penstock.spark.attach.settings import Settings, choose, default_guards

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Actuator:
    """Executors that come when told."""

    def __init__(self, count):
        self.planned = self.requested = self.observed = count
        self.limit, self.leaving, self.cold = inf, 0, set()
        self.busy = dict.fromkeys(map(str, range(count)), 0.0)
        self.told, self.advanced = "", 0

    @property
    def seen(self):
        return [RegisteredExecutor(i, "h", 1, 0, b, 0, 0.0) for i, b in self.busy.items()]

    def set_target(self, count, now):
        self.planned = self.requested = count
        return "requested"

    def advance(self, now):
        self.advanced += 1
        return self.told

    def refresh(self):
        """Looks only."""


class World:
    """One query with a trigger of a second; ``batch`` lets one finish."""

    def __init__(
        self, monkeypatch, executors=2, service=0.002, fixed=0.2, power=None, thinking=None, trigger=1.0
    ):
        self.now, self.number, self.service, self.fixed = 1000.0, 0, service, fixed
        self.every = 1.0
        self.actuator = Actuator(executors)
        self.query = QueryWatch("id", "q", trigger)
        self.watcher = watcher = SimpleNamespace(queries={"id": self.query}, resolve_triggers=lambda: None)
        self.warnings = []
        session = SimpleNamespace(
            streams=SimpleNamespace(get=lambda id_: SimpleNamespace(status={"isTriggerActive": False})),
            sparkContext=SimpleNamespace(applicationId="app-of-the-test"),
        )
        monkeypatch.setattr(module, "registered", lambda s: self.actuator.seen)
        self.plant = AttachedPlant(
            session,
            watcher,
            self.actuator,
            power=power,
            warn=self.warnings.append,
            clock=lambda: self.now,
            thinking=thinking,
        )

    def batch(self, rows, **more):
        work = rows * self.service
        for id_ in self.actuator.busy:
            self.actuator.busy[id_] += work / len(self.actuator.busy)
        duration = self.fixed + work / len(self.actuator.busy)
        self.query.progress(
            {
                "batchId": self.number,
                "timestamp": (BEGIN + timedelta(seconds=self.every * self.number)).isoformat(),
                "numInputRows": rows,
                "durationMs": {"triggerExecution": 1e3 * duration, "addBatch": 1e3 * (duration - 0.1)},
                **more,
            }
        )
        self.number += 1
        self.now += 1.0
        self.plant.sample()


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_rates_costs_and_utilisation_are_found_from_batches(world):
    for rows in (100, 100, 100, 400, 100, 400, 200, 400):
        world.batch(rows)
        seen = world.plant.observe()
    stage = seen.stages[0]
    assert stage.arrival_rate == pytest.approx(400.0)
    assert stage.service_time == pytest.approx(0.002, rel=0.1)
    assert stage.fixed_time == pytest.approx(0.2, abs=0.02)
    assert stage.utilisation == pytest.approx(400 * 0.002 / 2 / 0.8, rel=0.1)
    assert stage.latency.mean == pytest.approx(0.5 + 0.2 + 0.4, rel=0.01)
    assert seen.executors.observed == 2


def test_what_was_measured_while_executors_were_starting_is_left_out(world):
    for _ in range(5):
        world.batch(100)
        world.plant.observe()
    before = world.plant.observe().stages[0].service_time
    world.actuator.planned = world.actuator.requested = 3
    world.service = 0.05  # cold code is slow
    for _ in range(5):
        world.batch(100)
        seen = world.plant.observe()
    assert seen.stages[0].service_time == before


def test_what_executors_do_while_they_are_warmed_is_no_work_of_the_query(world):
    world.batch(100)
    world.actuator.busy["new"], world.actuator.cold = 5.0, {"new"}
    world.batch(100)
    world.plant.observe()
    world.actuator.busy["new"] += 5.0
    world.batch(100)
    stage = world.plant.observe().stages[0]
    # A third of the rows were done there, which is not told either.
    assert stage.busy_time == pytest.approx(100 * world.service * 2 / 3)


@pytest.mark.parametrize("slower", [0.0, 3.0])
def test_what_the_first_batch_on_new_executors_costs_is_told_and_remembered_by_a_rehearsal(world, slower):
    meter = Meter()
    for rows in (100, 200, 100, 400, 100, 200):
        world.batch(rows)
        seen = world.plant.observe()
        meter = measured(meter, seen)
        assert isnan(seen.stages[0].extra["warm_up"])
    before = meter.costs.warm_up
    for change in ("more", "fewer", "more"):
        if change == "more":
            world.actuator.busy["new"] = 0.0
        else:
            del world.actuator.busy["new"]
        world.fixed = 0.2 + slower * (change == "more")
        world.batch(200)
        world.fixed = 0.2
        world.batch(200)
        seen = world.plant.observe()
        meter = measured(meter, seen)
        told = seen.stages[0].extra["warm_up"]
        # It may have come while the batch ran, so what it helped is not counted: 0.4 s of work on 2 or 3.
        assert (
            isnan(told) if change == "fewer" else told == pytest.approx(max(0.0, slower - 0.4 / 6), abs=0.05)
        )
    assert (meter.costs.warm_up > before) == (slower > 0)
    assert meter.costs.warm_up == pytest.approx(before + (slower - before) * (1 - 0.7**2), abs=0.1)


@pytest.mark.parametrize(("rows", "held"), [(400, False), (5000, True)])
def test_a_query_without_a_trigger_may_shrink_however_long_its_batches_take_until_it_is_overloaded(
    monkeypatch, rows, held
):
    """Batches take 4 s for reasons of their own; 2 executors serve 1000 rows/s."""
    world = World(monkeypatch, fixed=3.6, trigger=0.0)
    world.every = 4.0
    for taken in (400, 200, 400, 200, 400, 400, rows, rows):
        world.batch(taken)
        seen = world.plant.observe()
    assert (seen.stages[0].utilisation > 1) == held
    wish = Decision((Change(Knob.EXECUTORS, "", 1),), "less")
    _, verdict = check(default_guards(Settings()), GuardState(), seen, wish)
    assert bool(verdict.decision.changes) != held
    assert any("being worked off" in note for note in verdict.notes) == held


def test_what_a_run_left_behind_is_not_what_waits_for_the_next_one(world):
    for at in range(1, 4):
        world.batch(100, sources=kafka([50 * at] * 3, [50 * at + 1000] * 3))
    assert world.plant.observe().stages[0].backlog == 3000.0
    world.query.started("another run")
    assert isnan(world.plant.observe().stages[0].backlog)
    world.batch(100, sources=kafka([200] * 3, [210] * 3))
    assert world.plant.observe().stages[0].backlog == 30.0


def test_a_query_that_ended_is_told_of_until_its_last_batch_was_and_where_no_other_runs(world):
    other = QueryWatch("other", "r", 1.0)
    world.watcher.queries = {"id": world.query, "other": other}
    world.batch(100, sources=kafka([50] * 3, [1000] * 3))
    world.query.terminated("", None)
    names = lambda: [s.name for s in world.plant.observe().stages]  # noqa: E731
    assert names() == ["q", "r"]
    assert names() == ["r"]
    other.terminated("", None)
    assert names() == ["r"]
    world.watcher.queries = {"new": QueryWatch("new", "q", 1.0)}
    assert names() == ["q"]
    assert isnan(world.plant.observe().stages[0].backlog)


def test_rows_that_end_a_silence_did_not_wait_for_as_long_as_it_was(monkeypatch):
    for trigger in (1.0, 0.0):
        world = World(monkeypatch, trigger=trigger)
        world.every = 30.0
        for _ in range(3):
            world.batch(100)
            seen = world.plant.observe()
        assert seen.stages[0].latency.p95 <= 1.0 + 0.3 + 1e-9


def test_nothing_new_for_a_while_means_no_arrivals(world):
    for _ in range(4):
        world.batch(100)
    world.plant.observe()
    world.now = 1767225600.0 + 3600.0  # long after the last batch
    assert world.plant.observe().stages[0].arrival_rate == 0.0


def test_a_decision_reaches_executors_under_either_name(world):
    world.batch(10)
    for change in (Change(Knob.EXECUTORS, "", 3), Change(Knob.WORKERS, "q", 4)):
        assert world.plant.apply(Decision((change,), "because")).changes == (change,)
    assert world.actuator.planned == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change(Knob.EXECUTORS, "", 0), "at least one"),
        (Change(Knob.WORKERS, "other", 2), "no query 'other'"),
        (Change(Knob.CPU_SHARE, "q", 0.5), "no CPU quotas"),
        (Change(Knob.SHEDDING, "q", 0.5), "no shedding"),
        (Change(Knob.FREQUENCY, "q", 1.5), "no frequency"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(world, change, words):
    applied = world.plant.apply(Decision((change,), "because"))
    assert not applied.changes
    assert words in applied.refused[0][1]


def test_executors_that_never_arrived_are_told(world):
    world.actuator.told = "gave up 2 executor(s) that did not arrive within 60 s"
    world.plant.observe()
    assert world.actuator.advanced == 0, "observing does not act"
    world.plant.maintain()
    assert world.warnings == ["Gave up 2 executor(s) that did not arrive within 60 s."]


def test_batches_that_take_longer_than_rows_and_overhead_say_are_noticed_by_a_rehearsal(world):
    """Tasks that do not divide evenly: what the rows cost is unchanged, and yet a batch takes half as long again."""
    meter = Meter()
    for rows in (100, 200, 100, 400, 100, 200):
        world.batch(rows)
        meter = measured(meter, world.plant.observe())
    assert meter.stretch == pytest.approx(1.0, abs=0.05)
    before, world.fixed = meter.stretch, 0.2 + 0.4
    world.batch(400)
    meter = measured(meter, world.plant.observe())
    assert meter.stretch > before + 0.02
    assert measured(meter, world.plant.observe()).stretch == meter.stretch  # no batch, nothing new
    assert isnan(world.plant.observe().stages[0].extra["batch_rows"])


def test_before_the_first_batch_everything_is_unknown_and_nothing_fails(world):
    stage = world.plant.observe().stages[0]
    assert isnan(stage.arrival_rate)
    assert isnan(stage.utilisation)
    assert isnan(stage.backlog)


@pytest.mark.parametrize("fixed", [0.1, 0.5, 0.7])
def test_utilisation_is_0_at_no_load_and_1_where_a_batch_takes_its_trigger(monkeypatch, fixed):
    world = World(monkeypatch, fixed=fixed)
    full = round((1.0 - fixed) * 2 / world.service)  # rows with which a batch takes a second on two executors
    for rows in (1, full // 2, 1, full // 3, 1, full, 1, full // 2):
        world.batch(rows)
        world.plant.observe()
    for rows, expected in ((1, 0.0), (full, 1.0)):
        world.batch(rows)
        assert world.plant.observe().stages[0].utilisation == pytest.approx(expected, abs=0.1)


def kafka(taken, there):
    """The source of a report: what a batch took of each partition, and what there was."""
    ends = ({"t": {str(p): n for p, n in enumerate(counts)}} for counts in (taken, there))
    return [dict(zip(("endOffset", "latestOffset"), ends, strict=True))]


def test_partitions_limit_the_executors_and_the_reason_says_so(world):
    for at in range(1, 4):
        world.batch(100, sources=kafka([50 * at] * 3, [50 * at] * 3))
        world.plant.observe()
    seen = world.plant.observe()
    assert seen.executors.limit == 3
    wish = Decision((Change(Knob.EXECUTORS, "", 8),), "more")
    _, verdict = check(Guards(), GuardState(), seen, wish)
    assert [c.number for c in verdict.decision.changes] == [3]
    assert any("limited to 3 by the 3 partitions of its topics" in note for note in verdict.notes)
    world.batch(100, sources=kafka([9] * 3, [9] * 3), stateOperators=[{"memoryUsedBytes": 1}])
    world.plant.observe()
    assert world.plant.observe().executors.limit == inf  # state is partitioned in another way


class Quotas:
    """CPU shares without a kernel."""

    def __init__(self):
        self.shares = {}

    def set_share(self, name, cores):
        self.shares[name] = cores

    def add_tree(self, name, pid):
        return [pid]

    def remove(self, name):
        del self.shares[name]


def test_the_share_that_is_observed_is_the_part_of_its_cores_that_an_executor_has(monkeypatch):
    monkeypatch.setattr(executor_groups, "local_pids", lambda application: {"1": 11, "2": 12})
    executors = [RegisteredExecutor(i, "h", cores, 0, 0.0, 0, 0.0) for i, cores in (("1", 4), ("2", 2))]
    quotas = Quotas()
    groups = ExecutorGroups("app", 0.5, quotas)
    assert groups.observed() == 1.0
    groups.update(executors)
    assert quotas.shares == {"executor-1": 2.0, "executor-2": 1.0}
    assert groups.observed() == 0.5
    groups.set_share(0.75, executors)
    assert groups.observed() == 0.75
    groups.update(executors[1:])
    assert (groups.observed(), list(quotas.shares)) == (0.75, ["executor-2"])


def test_a_dry_run_sets_no_quotas(world):
    groups = Ungrouped()
    groups.set_share(0.5, world.actuator.seen)
    groups.update(world.actuator.seen)
    assert (groups.share, groups.observed()) == (1.0, 1.0)
    groups.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"executors": 4}, "must be two whole numbers, not 4; use (1, 8)"),
        ({"executors": "1:8"}, "must be two whole numbers, not '1:8'"),
        ({"executors": (1.5, 2)}, "must be two whole numbers"),
        ({"executors": (1, 2, 3)}, "must be two whole numbers"),
        ({"executors": (4, 2)}, "contradict: 4 to 2"),
        ({"cpu": "0.5"}, "CPU shares must be numbers within (0, 1], not '0.5'"),
        ({"cpu": []}, "CPU shares must be numbers"),
        ({"cpu": (0.5, None)}, "CPU shares must be numbers"),
        ({"cpu": [0.7, 0.4]}, "CPU shares must ascend"),
        ({"target": "5"}, "The target must be a number above 0 seconds, not '5'."),
        ({"target": nan}, "The target must be a number above 0 seconds"),
        ({"target": inf}, "The target must be a number above 0 seconds, not inf."),
        ({"target_lag": "many"}, "The target_lag must be a number above 0 rows, not 'many'."),
        ({"period": None}, "The period must be a number of at least 0.1 seconds, not None."),
    ],
)
def test_settings_of_another_kind_are_told_in_one_sentence(words, said):
    with pytest.raises(PenstockError) as raised:
        Settings(**words)
    assert said in str(raised.value)
    assert str(raised.value).count(". ") == 0


def test_levels_and_bounds_may_be_lists():
    settings = Settings(executors=[1, 4], cpu=[0.4, 0.7])
    assert (settings.executors, settings.shares) == ((1, 4), (0.4, 0.7))
    assert settings.scales
    assert not Settings(executors=None).scales
    assert not Settings(dry_run=True, cpu=0.5).scales


def test_what_the_policys_own_process_takes_of_a_core_is_observed(monkeypatch):
    spent = [0.0]
    world = World(monkeypatch, thinking=lambda: spent[0])
    world.batch(100)
    assert world.plant.observe().measure(Metric.THINKING) == 0
    spent[0] = 0.25
    world.batch(100)
    world.batch(100)
    seen = world.plant.observe()
    assert seen.measure(Metric.THINKING) == pytest.approx(0.125)  # a quarter of a second in two
    assert _figures(seen)["thinking"] == pytest.approx(0.125)


def test_a_policy_without_a_process_of_its_own_has_no_such_figure(world):
    world.batch(100)
    seen = world.plant.observe()
    assert isnan(seen.measure(Metric.THINKING))
    assert "thinking" not in _figures(seen)


def test_the_share_of_late_rows_of_a_wish_reaches_the_autopilot():
    chosen = choose("Autopilot", Settings(executors=(1, 8), late=wished_late("latency")))
    assert chosen.policy.late == 0.01


@pytest.mark.parametrize("name", ["Autopilot", "Mead", "Mpc"])
def test_what_rehearses_or_fits_thinks_in_a_process_of_its_own(name):
    chosen = choose(name, Settings(executors=(1, 8)))
    assert isinstance(chosen, OwnProcess) == (name != "Mpc")
    assert chosen.name == name


def test_a_policy_is_held_to_a_lag_until_it_is_worked_off(world):
    policy = choose(Static(), Settings(executors=(1, 8), target_lag=1_000))
    state = policy.start()
    for at, behind in ((1, 0), (2, 0), (3, 30_000)):
        world.batch(400, sources=kafka([400 * at] * 20, [400 * at + behind / 20] * 20))
        seen = world.plant.observe()
    _, decision = policy.step(state, seen)
    (change,) = decision.changes
    assert (change.knob, change.number) == (Knob.EXECUTORS, 8)
    assert "rows wait and 1000 may" in decision.reason
    world.batch(400, sources=kafka([90_000] * 20, [90_000] * 20))
    _, decision = policy.step(state, world.plant.observe())
    assert "rows wait" not in decision.reason


@pytest.fixture
def powered(monkeypatch, tmp_path):
    """A query whose executor is the driver, on a machine with frequencies and energy counters."""
    machine = MachinePower(sysfs.cpufreq(tmp_path), sysfs.powercap(tmp_path))
    made = World(monkeypatch, executors=1, power=machine)
    made.actuator.busy = {"driver": 0.0}
    yield made
    machine.close()


def test_frequencies_are_told_and_set_where_all_executors_run_here(powered, tmp_path):
    powered.batch(10)
    seen = powered.plant.observe()
    assert seen.stage("q").frequency == Capacity(1.9, 1.9, 1.9, 2.0)
    assert isnan(seen.power)
    change = Change(Knob.FREQUENCY, "q", 1.5)
    assert powered.plant.apply(Decision((change,), "because")).changes == (change,)
    assert sysfs.cap(tmp_path) == "1500000"
    (tmp_path / "intel-rapl:0/energy_uj").write_text("4000000")
    powered.batch(10)
    seen = powered.plant.observe()
    assert seen.stage("q").frequency.observed == 1.5
    assert seen.power == pytest.approx(3.0)  # three joules in a second
    ((_, why),) = powered.plant.apply(Decision((Change(Knob.FREQUENCY, "q", 3.0),), "because")).refused
    assert why == "the cores can do 1.2 to 2 GHz"


def test_what_a_row_takes_at_another_frequency_is_measured_anew(powered):
    for rows in (100, 300, 100, 300, 100, 300):
        powered.batch(rows)
        powered.plant.observe()
    powered.plant.apply(Decision((Change(Knob.FREQUENCY, "q", 1.2),), "because"))
    powered.service = 0.004
    for rows in (100, 400, 100, 400, 200, 400):
        powered.batch(rows)
        seen = powered.plant.observe()
    assert seen.stage("q").service_time == pytest.approx(0.004, rel=0.1)


def test_frequencies_are_left_alone_once_an_executor_runs_elsewhere(powered, tmp_path):
    powered.batch(10)
    powered.actuator.busy["1"] = 0.0  # no process of this machine
    assert powered.plant.observe().stage("q").frequency is None
    refused = powered.plant.apply(Decision((Change(Knob.FREQUENCY, "q", 1.5),), "because")).refused
    assert "executors run on h, whose frequency is not set from here" in refused[0][1]
    assert sysfs.cap(tmp_path) == "1900000"
