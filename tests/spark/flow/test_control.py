"""Policies and the rebalancer on a flow."""

import dataclasses
import json
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.journal import MemoryJournal
from penstock.core.observation import KeyLoad
from penstock.dataflow.firing import need_all
from penstock.dataflow.graph import Graph
from penstock.dataflow.keys import group_of, hash_keys
from penstock.dataflow.operators import operator
from penstock.dataflow.routing import is_uneven
from penstock.dataflow.running_figures import running_count
from penstock.dataflow.slices import EVERY
from penstock.page.document import write_report
from penstock.policies import Mpc, Organic
from penstock.policies.catalog import policy_named
from penstock.policies.rebalance import needed, rebalance
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.spark.flow.busy_shares import busy_shares
from penstock.spark.flow.flow_plant import FlowPlant
from penstock.spark.flow.rebalancer import Rebalancer
from penstock.spark.flow.run import LONGEST_WAIT
from penstock.testing.flow_run import start_in_process
from penstock.testing.plant_suite import check_plant
from waiting import PATIENCE, until


@operator(keys="k", state={"n": int}, output={"k": int})
def count(rows, state, output):
    running_count(rows.slots, state["n"])
    output.emit(rows.table)


@operator(keys="k", state={"n": int}, output={"k": int})
def again(rows, state, output):
    running_count(rows.slots, state["n"])
    output.emit(rows.table)


def started(folder, policy=None, rebalances=False):
    """A flow in this process, its controller (to be stepped by hand) and its journal."""
    graph = Graph("controlled")
    graph.source("rows", {"k": int}).through(count).through(again).sink("out")
    journal = MemoryJournal()
    run = start_in_process(graph, folder, journal=journal, policy=policy, slots=4)
    if rebalances:
        run.listen(Rebalancer(run._program))
    return run, journal


def rows(keys):
    return {"rows": pa.table({"k": np.asarray(keys)})}


def test_an_observation_tells_regions_pipelines_operators_and_keys(tmp_path):
    run, _ = started(tmp_path)
    run.rescale(replicas={"count": 2})
    run.feed(rows(np.arange(1000)))
    seen = run.controller.plant.observe()
    region, stage = seen.region("count"), seen.stage("count/0")
    assert region.operators == ("count", "again")
    assert (region.replicas.observed, region.kind, region.pipelines) == (2, "partitioned", (0,))
    assert [o.name for o in stage.operators] == ["count", "again"]
    assert 0 < sum(o.cost for o in stage.operators) <= 2
    assert len(stage.worker_utilisation) == 2
    assert stage.tuples_in == 1000
    assert abs(sum(region.keys.frequencies) - 1) < 1e-9
    run.finish()


def taking(seconds, key):
    @operator(keys=key, state={"n": int}, output={"k": int, "j": int}, changes=[])
    def work(rows, state, output):
        running_count(rows.slots, state["n"])
        time.sleep(seconds)
        output.emit(rows.table)

    return work


def test_equally_costly_regions_in_turn_are_all_busy_where_their_workers_are(tmp_path):
    graph = Graph("chain")
    stream = graph.source("rows", {"k": int, "j": int}).through(taking(0.2, "k"), name="first")
    stream.through(taking(0.2, "j"), name="second").through(taking(0.01, "k"), name="cheap").sink("out")
    run = start_in_process(graph, tmp_path)

    def all_busy():
        run.feed({"rows": pa.table({"k": [1], "j": [1]})})  # one after another: the workers cannot keep up
        seen = run.controller.plant.observe()
        first, second, cheap = (seen.stage(f"{name}/0").utilisation for name in ("first", "second", "cheap"))
        return min(first, second) > Organic().bottleneck and cheap < min(first, second)

    all_busy()  # of a first batch there is no time since the one before
    # A machine with other work may take its time between two batches, and then the workers did wait.
    until(all_busy, "batches in which both costly regions were busy")
    run.finish()


def overlapping(folder):
    """A costly region, and a cheap one that works on the batch before at the same time."""
    graph = Graph("beside")
    stream = graph.source("rows", {"k": int, "j": int}).through(taking(0.2, "k"), name="costly")
    stream.through(taking(0.05, "j"), name="cheap").sink("out")
    run = start_in_process(graph, folder)
    run.rescale(overlap={"cheap": True})
    return run


def test_of_regions_that_overlap_only_the_costly_one_is_busy_where_the_flow_cannot_keep_up(tmp_path):
    run = overlapping(tmp_path)

    def own_shares():
        run.feed({"rows": pa.table({"k": [1], "j": [1]})})  # one after another
        seen = run.controller.plant.observe()
        costly, cheap = (seen.stage(f"{name}/0").utilisation for name in ("costly", "cheap"))
        return costly > Organic().bottleneck and 0 < cheap < costly / 2

    own_shares()  # of a first batch there is no time since the one before
    until(own_shares, "batches in which the costly region alone was busy")
    run.finish()


def test_the_busy_share_of_a_region_that_overlaps_is_its_own_work_over_the_time_there_was(tmp_path):
    run, profiles = overlapping(tmp_path), []
    run.listen(profiles.append)
    for _ in range(3):
        run.feed({"rows": pa.table({"k": [1], "j": [1]})})
    program, last = run._program, profiles[-1]
    layout = program.definition.wiring(last.plan).layout
    assert layout.segments == 2
    took = {"costly/0": 0.3, "cheap/0": 0.1}
    pipelines = {
        name: dataclasses.replace(last.pipelines[name], seconds=(seconds,)) for name, seconds in took.items()
    }
    # Both began at once, so the batch took the longer of them and 0.1 s that no worker could shorten.
    batch = dataclasses.replace(last, pipelines=pipelines, seconds=0.4, source_seconds=0.0)

    def shares(span):
        return {p.name: busy_shares((took[p.name],), p, batch, span, program) for p in layout.pipelines}

    assert shares(0.4) == {"costly/0": pytest.approx([1.0]), "cheap/0": pytest.approx([1 / 3])}
    assert shares(0.7) == {"costly/0": pytest.approx([0.5]), "cheap/0": pytest.approx([1 / 6])}
    run.finish()


def test_decisions_take_effect_with_the_next_batch_and_wrong_ones_are_refused(tmp_path):
    run, journal = started(tmp_path)
    run.feed(rows(np.arange(100)))
    done = run.controller.plant.apply(
        Decision(
            (
                Change(Knob.WORKERS, "count", 3),
                Change(Knob.PIPELINES, "count", (0, 1)),
                Change(Knob.SHEDDING, "count", 0.5),
            )
        )
    )
    assert len(done.changes) == 2
    assert "no shedding" in done.refused[0][1]
    run.feed(rows(np.arange(100)))
    run.controller.step()
    assert run.plan.regions["count"].replicas == 3
    assert run.plan.regions["count"].pipelines == (0, 1)
    effect = [r for r in journal.records if r["kind"] == "reconfiguration"]
    assert [c[0] for c in effect[0]["changes"]] == ["workers", "pipelines", "routing"]
    run.finish()


def test_organic_grows_a_region_that_holds_the_flow_back(tmp_path):
    run, journal = started(
        tmp_path, policy=Organic(warmup=0, samples=1, bottleneck=0.05, order="fission", increase=0.0)
    )
    for _ in range(6):
        run.feed(rows(np.arange(2000)))
        run.controller.step()
    assert any(
        c[0] == "workers" for r in journal.records if r["kind"] == "reconfiguration" for c in r["changes"]
    )
    assert any("count" in text for text in journal.texts("decision"))
    run.finish()


# One batch is fed after another, so the demand that Ds2 sees is never above what is served: it aims lower here.
@pytest.mark.parametrize("name", ["Ds2:utilisation=0.2,boundary=0.1", "Hpa:utilisation=0.3", "Dhalion"])
def test_rivals_by_name_grow_a_region_that_holds_the_flow_back(tmp_path, name):
    @operator(keys="k", state={"n": int}, output={"k": int}, changes=[])
    def slow(rows, state, output):
        sum(range(20_000 * len(rows)))
        output.emit(rows.table)

    graph = Graph("held back")
    graph.source("rows", {"k": int}).through(slow).sink("out")
    journal = MemoryJournal()
    policy = policy_named(name, Surroundings(PlantKind.REPLICAS, (1, 4), period=0.0))
    # Batches take much longer than their trigger.
    run = start_in_process(graph, tmp_path, journal=journal, policy=policy, slots=4, trigger=0.001)

    def grown():
        run.feed(rows(np.arange(400)))
        run.controller.step()
        return run.plan.regions["slow"].replicas > 1

    until(grown, "more replicas")
    run.finish()
    files = (tmp_path / "out" / "out").glob("*.parquet")
    found = [k for f in files for k in pq.read_table(f).column("k").to_pylist()]
    assert len(found) % 400 == 0
    assert set(found) == set(range(400))


def test_organic_gives_replicas_to_a_stateless_region_that_holds_the_flow_back(tmp_path):
    @operator(output={"k": int})
    def parse(rows, output):
        sum(range(2000 * len(rows)))
        output.emit({"k": rows.column("k")})

    graph = Graph("parsing")
    graph.source("rows", {"k": int}).through(parse).sink("out")
    journal = MemoryJournal()
    policy = Organic(warmup=0, samples=1, bottleneck=0.05, increase=0.0)
    run = start_in_process(graph, tmp_path, journal=journal, policy=policy, slots=4)
    for _ in range(4):
        run.feed(rows(np.arange(40)), partitions=1)
        run.controller.step()
    made = [c for r in journal.records if r["kind"] == "reconfiguration" for c in r["changes"]]
    assert ("workers", "parse", 2) in [tuple(c[:3]) for c in made]
    run.rescale(replicas={"parse": 3})
    run.feed(rows(np.arange(40)), partitions=1)
    assert sorted(run.profile.pipelines["parse/0"].rows) == [13, 13, 14], "as many rows to each"
    run.finish()
    files = (tmp_path / "out" / "out").glob("*.parquet")
    assert sorted(k for f in files for k in pq.read_table(f).column("k").to_pylist()) == sorted(
        [*range(40)] * 5
    )


def test_hot_groups_move_when_replicas_stay_uneven(tmp_path):
    run, _ = started(tmp_path, rebalances=True)
    run.rescale(replicas={"count": 2})
    keys = np.arange(4000)
    groups = group_of(hash_keys(pa.table({"k": keys}), ["k"]), 16)
    skewed = np.concatenate([keys[groups < 8].repeat(4), keys])
    for _ in range(8):
        run.feed(rows(skewed))
    routing = run.plan.regions["count"].routing
    weights = np.bincount(group_of(hash_keys(pa.table({"k": skewed}), ["k"]), 16), minlength=16)
    assert not is_uneven(routing, weights.tolist(), 2)
    run.finish()


def test_keys_of_equal_counts_and_different_costs_are_balanced_by_cost(tmp_path):
    """Two dear keys on one replica, as many tuples on each: counts alone say that all is well."""
    names = np.arange(400)
    groups = group_of(hash_keys(pa.table({"k": names}), ["k"]), 16)
    one_each = np.array([names[groups == g][0] for g in range(16)])
    dear = one_each[[1, 2]]

    @operator(keys="k", state={"n": int}, output={"k": int, "n": int})
    def weigh(rows, state, output):
        for _ in range(int(np.isin(rows["k"], dear).sum())):
            sum(range(6_000))
        output.emit({"k": rows.column("k"), "n": running_count(rows.slots, state["n"])})

    graph = Graph("weighing")
    graph.source("rows", {"k": int}).through(weigh).sink("out")
    run = start_in_process(graph, tmp_path, slots=4)
    run.rescale(replicas={"weigh": 2})
    for _ in range(2 * EVERY):
        run.feed(rows(np.tile(one_each, 8)))
    assert not run.controller.plant.observe().region("weigh").keys.costs, "nobody asked"
    run.listen(Rebalancer(run._program))
    batches, apart, told = 2 * EVERY, False, False
    while not (apart and told) and batches < 400:  # estimates come nearer with every batch
        run.feed(rows(np.tile(one_each, 8)))
        batches += 1
        keys = run.controller.plant.observe().region("weigh").keys
        told = bool(keys.costs) and min(keys.costs[1:3]) > 4 * np.mean(np.delete(keys.costs, [1, 2]))
        routing = run.plan.regions["weigh"].routing
        apart = apart or routing[1] != routing[2]
    assert told, "what each group costs"
    assert apart, "and the dear ones are put on replicas of their own"
    before = KeyLoad(keys.frequencies, keys.costs, tuple(g // 8 for g in range(16)))
    assert needed(before, 2, 0.5)
    assert not needed(KeyLoad(before.frequencies, (), before.routing), 2, 0.5), "what counts alone would say"
    mended = rebalance(before, 2)
    assert mended[1] != mended[2], "and a policy sees it too"
    run.finish()
    files = (tmp_path / "out" / "out").glob("*.parquet")
    given = sorted((r["k"], r["n"]) for f in files for r in pq.read_table(f).to_pylist())
    assert given == sorted((k, n + 1) for k in one_each.tolist() for n in range(8 * batches))


def test_intake_slows_down_while_a_port_waits_for_another(tmp_path, monkeypatch):
    @operator(keys="k", inputs=["a", "b"], need=need_all(hold=10, a=1, b=1), grain="key", output={"k": int})
    def pair(inputs, state, output):
        output.emit(inputs["a"][0])

    graph = Graph("pairs")
    graph.source("a", {"k": int}).through(pair, graph.source("b", {"k": int})).sink("out")
    run = start_in_process(graph, tmp_path)
    waits = []
    monkeypatch.setattr(run._ended, "wait", waits.append)
    table = pa.table({"k": [1, 1, 1, 1]})
    run.feed({"a": table})
    run.feed({"a": table})
    assert waits == []
    run.feed({"b": table})
    assert waits == [LONGEST_WAIT * (2 * 0.8 - 1)]
    assert run.progress["waiting"] == 4
    run.finish()


def test_tuples_that_wait_for_others_of_their_key_are_no_backlog(tmp_path):
    @operator(keys="k", need=need_all(**{"in": 25}), grain="key", output={"k": int})
    def in_lots(rows, state, output):
        output.emit(rows[0])

    graph = Graph("lots")
    graph.source("rows", {"k": int}).through(in_lots, name="lots").sink("out")
    run = start_in_process(graph, tmp_path)
    run.feed(rows(list(range(100)) * 12))
    (stage,) = run.controller.plant.observe().stages
    assert run.progress["waiting"] == 1200
    assert stage.backlog == 0.0
    run.finish()


def test_stateless_operators_may_change_between_two_starts(tmp_path):
    @operator()
    def same(rows, output):
        output.emit(rows.table)

    def start(*operators):
        graph = Graph("grown")
        stream = graph.source("rows", {"k": int})
        for one in operators:
            stream = stream.through(one)
        stream.sink("out")
        return start_in_process(graph, tmp_path)

    run = start(count)
    run.rescale(replicas={"count": 2})
    run.feed(rows([1, 2]))
    run.finish()
    run = start(same, count)
    run._next = 1
    run.feed(rows([1]))
    assert run.plan.regions["same"].replicas == 1
    run.finish()


def test_a_flow_keeps_the_contract_of_a_plant(tmp_path):
    run, _ = started(tmp_path)
    check_plant(
        run.controller.plant,
        lambda _seconds: run.feed(rows(np.arange(500))),
        Decision((Change(Knob.WORKERS, "count", 2), Change(Knob.PIPELINES, "count", (0, 1)))),
    )
    run.finish()


class Waits:
    """A policy that does not answer before it is let go."""

    name = "Waits"

    def __init__(self):
        self.asked, self.go = threading.Event(), threading.Event()

    def start(self):
        return None

    def step(self, state, observation):
        self.asked.set()
        self.go.wait()
        return state, Decision((Change(Knob.WORKERS, "count", 300_000),), "more")


def test_every_batch_is_in_the_journal_without_a_policy_and_the_report_can_be_drawn(tmp_path):
    run, journal = started(tmp_path / "run")
    run.controller.start()
    for _ in range(4):
        run.feed(rows(np.arange(100)))
    run.finish()
    tables = journal.tables()
    assert len(tables.observations["time"]) == 4
    assert list(tables.stage("count/0")["tuples_in"]) == [100.0] * 4
    copy = tmp_path / "journal.jsonl"
    copy.write_text("".join(json.dumps(r) + "\n" for r in journal.records))
    assert write_report(copy, tmp_path / "page.html").observations == 4


def test_a_policy_that_hangs_costs_no_batch_and_its_late_answer_is_cut_down_to_the_slots(tmp_path):
    policy = Waits()
    run, journal = started(tmp_path, policy=policy)
    run.controller.start()
    run.feed(rows(np.arange(100)))
    assert policy.asked.wait(PATIENCE)
    for _ in range(5):
        run.feed(rows(np.arange(100)))
    assert run.progress["batch"] == 5
    policy.go.set()
    until(lambda: run._program.wanted.regions["count"].replicas > 1, "the late answer")
    run.feed(rows(np.arange(100)))
    assert run.plan.regions["count"].replicas == 4
    run.finish()
    assert len(journal.tables().observations["time"]) == 7


def test_a_batch_that_began_before_a_change_is_not_decided_on(tmp_path):
    run, _ = started(tmp_path)
    run.feed(rows(np.arange(100)))
    run.controller.plant.apply(Decision((Change(Knob.WORKERS, "count", 2),)))
    assert [r.current for r in run.controller.plant.reports()] == [False]
    run.feed(rows(np.arange(100)))
    fresh = run.controller.plant.reports()
    assert [r.current for r in fresh] == [True]
    assert [c.knob for c in fresh[0].effect.applied.changes] == [Knob.WORKERS, Knob.ROUTING]
    run.finish()


@pytest.mark.parametrize(
    ("how", "gap", "busy"),
    [
        ({"at_once": True}, 0.5, True),
        ({"trigger": 0.1}, 0.2, True),
        ({"trigger": 5.0}, 4.5, False),
        ({}, 4.5, False),
    ],
)
def test_the_time_between_batches_is_to_spare_only_where_rows_were_waited_for(tmp_path, how, gap, busy):
    """What Spark needs between two batches of rows that are there is nothing that workers have left."""
    run, _ = started(tmp_path)
    profiles = []
    run.listen(profiles.append)
    run.feed(rows(np.arange(1000)))
    plant = FlowPlant(run._program, **how)
    for number in range(2):
        plant.put(dataclasses.replace(profiles[0], started=1000.0 + number * (0.3 + gap), seconds=0.3))
    last = plant.reports()[1].observation.stage("count/0").utilisation
    assert last > 0.99 if busy else last < 0.9
    run.finish()


def test_rows_arrive_in_the_time_since_the_batch_before(tmp_path):
    run, _ = started(tmp_path)
    profiles = []
    run.listen(profiles.append)
    run.feed(rows(np.arange(1000)))
    plant = FlowPlant(run._program)
    plant.put(dataclasses.replace(profiles[0], started=1000.0, seconds=0.3))
    plant.put(dataclasses.replace(profiles[0], started=1001.0, seconds=0.3))
    rates = [r.observation.stage("count/0").arrival_rate for r in plant.reports()]
    assert rates[1] == 1000.0
    run.finish()


def test_rows_that_are_all_there_arrive_as_fast_as_they_could_be_taken(tmp_path):
    """What a flow takes says nothing of what it could: a policy that keeps up with arrivals would never add a replica."""
    run, _ = started(tmp_path)
    profiles = []
    run.listen(profiles.append)
    run.feed(rows(np.arange(1000)))
    (profile,) = profiles
    busy = dataclasses.replace(profile.pipelines["count/0"], seconds=(0.3,), cpu=(0.3,))
    batch = dataclasses.replace(
        profile, pipelines={**profile.pipelines, "count/0": busy}, seconds=0.4, source_seconds=0.0
    )
    policy, plant = Mpc(stages=("count",), workers=(1, 4)), FlowPlant(run._program, at_once=True)
    state = policy.start()
    for number in range(20):
        plant.put(dataclasses.replace(batch, started=1000.0 + 0.5 * number))
    for report in plant.reports():
        state, decision = policy.step(state, report.observation)
    stage = report.observation.stage("count/0")
    # 0.1 s of the batch and 0.1 s between two batches are nobody's work.
    assert stage.arrival_rate == pytest.approx(5000.0)
    assert decision.number(Knob.WORKERS, "count/0", 1) == 2
    run.finish()


def seen_with_rows_left(folder, *left, limited=True):
    """Observations of batches of 1000 rows a second, 0.4 s long each, which leave so many rows at the source."""
    run, _ = started(folder)
    profiles = []
    run.listen(profiles.append)
    run.feed(rows(np.arange(1000)))
    plant = FlowPlant(run._program, trigger=1.0)
    for second, waiting in enumerate(left):
        batch = dataclasses.replace(profiles[0], started=1000.0 + second, seconds=0.4)
        plant.put(dataclasses.replace(batch, left=waiting, limited=limited))
    run.finish()
    return [report.observation for report in plant.reports()]


def test_rows_that_a_limit_for_batches_holds_back_have_arrived_too(tmp_path):
    seen = seen_with_rows_left(tmp_path, 0.0, 500.0, 1000.0, 800.0)
    assert [o.stage("count/0").arrival_rate for o in seen[1:]] == [1500.0, 1500.0, 800.0]


def test_rows_that_were_held_back_waited_for_longer(tmp_path):
    held = seen_with_rows_left(tmp_path / "held", 2400.0, 2400.0)[1].latency
    taken = seen_with_rows_left(tmp_path / "taken", 400.0, 400.0)[1].latency
    assert held.mean == pytest.approx(taken.mean + 2.0)  # 2,000 rows are before them, at 1,000 a second
    free = seen_with_rows_left(tmp_path / "free", 2400.0, 2400.0, limited=False)[1].latency
    assert free == taken  # what came while the batch was at work


def test_no_row_that_ends_a_silence_waited_longer_than_a_trigger_and_its_batch(tmp_path):
    run, _ = started(tmp_path)
    profiles = []
    run.listen(profiles.append)
    run.feed(rows(np.arange(1000)))
    run.finish()
    plant = FlowPlant(run._program, trigger=1.0)
    for second in (0.0, 30.0):
        plant.put(dataclasses.replace(profiles[0], started=1000.0 + second, seconds=0.4))
    assert plant.reports()[-1].observation.latency.maximum == pytest.approx(1.4)


def test_a_routing_that_came_with_refused_replicas_is_refused_with_them(tmp_path):
    run, _ = started(tmp_path)
    run.feed(rows(np.arange(100)))
    before = run._program.wanted
    wrong = (Change(Knob.WORKERS, "count", 2), Change(Knob.ROUTING, "count", (7,) * 16))
    done = run.controller.plant.apply(Decision(wrong))
    assert not done.changes
    assert [c for c, _ in done.refused] == list(wrong)
    assert run._program.wanted == before
    right = (Change(Knob.ROUTING, "count", (0, 1) * 8), Change(Knob.WORKERS, "count", 2))
    assert run.controller.plant.apply(Decision(right)).changes == right
    assert run._program.wanted.regions["count"].routing == (0, 1) * 8
    run.finish()


def test_what_mpc_predicts_waiting_from_is_measured(tmp_path):
    run, _ = started(tmp_path)
    rng = np.random.default_rng(3)
    for batch in range(12):
        run.feed(rows(rng.integers(0, 50, 100 if batch % 2 else 1000)))
    stage = run.controller.plant.observe().stage("count/0")
    assert stage.arrival_scv > 1, "counts of 100 and 1000 in turn are no Poisson arrivals"
    assert stage.service_scv >= 0
    assert 0 < stage.waiting_time < stage.latency.mean
    assert abs(stage.latency.mean - stage.waiting_time - stage.service_time) < 1e-9
    run.finish()
