from dataclasses import dataclass, field, replace
from math import exp

import pytest

from penstock.core import Bound, Controller, Decision, Guards, Knob
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.journal import MemoryJournal
from penstock.core.observation import Observation, OperatorObservation, RegionObservation, StageObservation
from penstock.core.plant import Applied
from penstock.policies import Organic
from penstock.policies.pipelines import best_split, split_utility


@dataclass
class Joker:
    """A small fluid model: pipelines are threads, the source offers a rate, the slowest thread sets the pace.

    costs: microseconds a tuple by operator of each region; overhead: microseconds a tuple and pipeline; spread: what
    each further replica loses (0 none); fed: region -> regions downstream.
    """

    costs: dict
    offered: float = 1e6
    overhead: float = 0.1
    spread: float = 0.0
    fed: dict = field(default_factory=dict)
    kinds: dict = field(default_factory=dict)
    throughput_of: object = None
    time: float = 0.0

    def __post_init__(self):
        self.config = dict.fromkeys(self.costs, ((0,), 1))

    def loads(self, name):
        starts, replicas = self.config[name]
        ends = (*starts[1:], len(self.costs[name]))
        parts = [self.costs[name][a:b] for a, b in zip(starts, ends, strict=True)]
        factor = replicas / (1 + self.spread * (replicas - 1))
        return parts, [(sum(p) + self.overhead) / factor for p in parts]

    def rate(self):
        if self.throughput_of is not None:
            return self.throughput_of(self.config)
        return min(self.offered, *(1e6 / max(self.loads(n)[1]) for n in self.costs))

    def observe(self):
        self.time += 1.0
        rate, stages, regions = self.rate(), [], []
        for name in self.costs:
            parts, loads = self.loads(name)
            starts, replicas = self.config[name]
            for i, (part, load) in enumerate(zip(parts, loads, strict=True)):
                total = sum(part) + self.overhead
                busy = min(1.0, rate * load / 1e6) if self.throughput_of is None else 0.95
                operators = tuple(
                    OperatorObservation(f"o{j}", c / total, c * 1e-6) for j, c in enumerate(part)
                )
                stages.append(StageObservation(
                    f"{name}/{i}", Capacity.steady(replicas), region=name, worker_utilisation=(busy,) * replicas,
                    operators=operators, tuples_in=rate, tuples_out=rate,
                ))  # fmt: skip
            regions.append(RegionObservation(
                name, Capacity.steady(replicas), tuple(f"o{j}" for j in range(len(self.costs[name]))), starts,
                self.kinds.get(name, "partitioned"), rate, tuple(self.fed.get(name, ())),
            ))  # fmt: skip
        return Observation(self.time, 1.0, tuple(stages), tuple(regions))

    def apply(self, decision: Decision) -> Applied:
        for change in decision.changes:
            starts, replicas = self.config[change.where]
            if change.knob is Knob.PIPELINES:
                self.config[change.where] = (change.sequence, replicas)
            else:
                self.config[change.where] = (starts, int(change.number))
        return Applied(decision.changes)


def run(plant, policy, periods=40, guards=None):
    """The configurations it went through, and the reasons of all steps that were more than waiting."""
    journal = MemoryJournal()
    loop = Controller(plant, policy, guards or Guards(catch_up=None), journal)
    path = [dict(plant.config)]
    for _ in range(periods * (policy.warmup + policy.samples)):
        loop.step()
        if plant.config != path[-1]:
            path.append(dict(plant.config))
    return path, [
        r for r in journal.texts("decision") if not r.startswith(("profiling", "letting", "waiting"))
    ]


QUICK = {"warmup": 1, "samples": 2}


def test_the_paper_s_split_example():
    assert split_utility((0.2, 0.1, 0.4), 1) == pytest.approx(1 / (0.3 + max(0.2, 0.1 + 0.4)))
    assert split_utility((0.2, 0.1, 0.4), 2) == pytest.approx(1 / (0.3 + max(0.2 + 0.1, 0.4)))
    assert best_split((0.2, 0.1, 0.4))[0] == 2  # before the third operator


def test_unbalanced_costs_are_split_at_a_low_threshold_only():
    # Figs. 14 and 15: costs 0.75 and 0.10 promise 11 %, 0.45 and 0.40 promise 67 %
    for costs, threshold, expected in (
        ((0.75, 0.10), 0.2, False),
        ((0.75, 0.10), 0.1, True),
        ((0.45, 0.40), 0.2, True),
        ((0.45, 0.40), 0.9, False),
    ):
        plant = Joker({"r": costs}, overhead=0.15)
        path, _ = run(plant, Organic(split=threshold, **QUICK), periods=2)
        assert (path[1]["r"][0] == (0, 1)) is expected, (costs, threshold)


def test_the_selectivity_experiment_step_by_step():
    """Fig. 10: split +4 % undone, replica +67 %, split +9 % undone, replica +46 %, split +14 % kept; then no bottleneck."""
    base = 80.0
    rates = {
        ((0,), 1): base, ((0, 3), 1): base * 1.04, ((0,), 2): base * 1.67, ((0, 3), 2): base * 1.67 * 1.09,
        ((0,), 3): base * 1.67 * 1.46, ((0, 3), 3): base * 1.67 * 1.46 * 1.14,
    }  # fmt: skip
    # m1 s1 m2 | s2 m3 s3 m4: the multiplications weigh about the same, the rest nothing
    plant = Joker({"r": (10.0, 0.1, 10.0, 0.1, 10.0, 0.1, 10.0)}, throughput_of=lambda c: rates[c["r"]])
    observe = plant.observe

    def saturated():
        seen = observe()
        if plant.config["r"] != ((0, 3), 3):
            return seen
        return replace(seen, stages=tuple(replace(s, worker_utilisation=(0.7,) * 3) for s in seen.stages))

    plant.observe = saturated
    path, reasons = run(plant, Organic(**QUICK), periods=20)
    assert [c["r"] for c in path] == [
        ((0,), 1), ((0, 3), 1), ((0,), 2), ((0, 3), 2), ((0,), 3), ((0, 3), 3),
    ]  # fmt: skip
    told = [r for r in reasons if r.startswith(("undone", "kept"))]
    assert "+4%" in told[0]
    assert "+67%" in told[1]
    assert "+9%" in told[2]
    assert "+46%" in told[3]
    assert "+14%" in told[4]
    assert reasons[-1].startswith(("stable", "no bottleneck"))


def test_a_cheap_load_needs_no_second_replica_and_a_trial_is_undone():
    # Fig. 11: offered 0.85 of what one replica can do: a bottleneck by the threshold, but nothing to gain
    plant = Joker({"r": (1.0,)}, overhead=0.0, offered=0.85e6)
    path, reasons = run(plant, Organic(**QUICK), periods=12)
    assert [c["r"][1] for c in path] == [1, 2, 1]
    assert any(r.startswith("undone") for r in reasons)


def test_a_run_that_still_warms_up_is_no_baseline():
    """Throughput rises by itself for half a minute, whatever is changed: nothing of that is the gain of a replica."""
    plant = Joker({"r": (1.0,)}, overhead=0.0)
    plant.throughput_of = lambda config: 1e6 * (1.0 - exp(-plant.time / 8.0))
    path, reasons = run(plant, Organic(), periods=6)
    assert [c["r"][1] for c in path] == [1, 2, 1]
    assert sum("rises by itself" in r for r in reasons) == 3
    assert any(r.startswith("undone") for r in reasons)


def test_a_throughput_that_never_stops_rising_does_not_keep_it_from_acting():
    plant = Joker({"r": (1.0,)}, overhead=0.0)
    plant.throughput_of = lambda config: 1e3 * plant.time**2 * config["r"][1]
    path, reasons = run(plant, Organic(), periods=8)
    assert path[1]["r"][1] == 2
    assert sum("rises by itself" in r for r in reasons) == Organic().stable


def test_joint_optimisation_beats_fusion_and_fission_alone():
    # Fig. 5: four equal operators, replicas that scale worse the more there are
    rates = {}
    for order in ("fusion-first", "fission-first", "fusion", "fission"):
        plant = Joker({"r": (2.0,) * 4}, offered=1e9, overhead=0.05, spread=0.1)
        run(plant, Organic(order=order, **QUICK), periods=60)
        rates[order] = plant.rate()
    assert rates["fusion-first"] >= rates["fission"]
    assert rates["fusion-first"] > 1.5 * rates["fusion"]
    assert rates["fission-first"] == pytest.approx(rates["fusion-first"], rel=0.35)
    assert rates["fusion"] == pytest.approx(1e6 / 2.05, rel=0.01)  # four pipelines, no more


def test_bottlenecks_of_two_branches_are_resolved_together():
    plant = Joker({"a": (1.0,), "b": (4.0,), "c": (4.0,)}, fed={"a": ("b", "c")}, offered=5e5, overhead=0.0)
    path, _ = run(plant, Organic(**QUICK), periods=20)
    assert path[1]["b"][1] == path[1]["c"][1] == 2
    assert plant.rate() == pytest.approx(5e5)


def test_a_stateful_region_is_split_but_never_replicated():
    plant = Joker({"r": (2.0, 2.0)}, kinds={"r": "stateful"}, offered=1e9)
    path, _ = run(plant, Organic(**QUICK), periods=10)
    assert path[-1]["r"] == ((0, 1), 1)


def test_a_split_happens_only_if_every_bottleneck_pipeline_can_be_split():
    plant = Joker({"r": (4.0, 2.0, 2.0)}, offered=1e9, overhead=0.0)
    path, _ = run(plant, Organic(**QUICK), periods=3)
    assert path[1]["r"] == ((0, 1), 1)  # 4 | 2 2
    assert path[2]["r"] == ((0, 1), 2)  # both are busy and the first cannot be split: a replica


def test_what_failed_is_tried_again_only_after_the_load_changed():
    plant = Joker({"r": (1.0,)}, overhead=0.0, offered=0.85e6)
    policy = Organic(**QUICK)
    run(plant, policy, periods=10)
    journal = MemoryJournal()
    loop = Controller(plant, policy, Guards(catch_up=None), journal)
    seen = []
    for step in range(90):
        if step == 45:
            plant.offered = 2.5e6
        loop.step()
        seen.append(plant.config["r"][1])
    assert set(seen[20:45]) == {1}
    assert seen[-1] == 3  # 2.5 replicas' worth of load


def test_a_load_that_outgrows_a_region_is_noticed_though_all_figures_are_capped():
    """Full at first, then at 90 %, then full again: throughput and utilisation never move by the 20 %."""
    plant = Joker({"r": (1.0,)}, overhead=0.0, offered=1.0e6)
    policy = Organic(**QUICK)
    loop = Controller(plant, policy, Guards(catch_up=None))
    for offered, replicas in ((1.0e6, 1), (0.9e6, 1), (3.0e6, 3)):
        plant.offered = offered
        for _ in range(45):
            loop.step()
        assert plant.config["r"][1] == replicas


def test_it_gives_back_what_it_no_longer_needs_when_asked():
    for shrink, expected in ((False, 6), (True, 2)):
        plant = Joker({"r": (1.0,)}, overhead=0.0, offered=5.0e6)
        policy = Organic(shrink=shrink, **QUICK)
        loop = Controller(plant, policy, Guards(catch_up=None))
        for step in range(400):
            if step == 150:
                plant.offered = 1.0e6
            loop.step()
        assert plant.config["r"][1] <= expected if shrink else plant.config["r"][1] >= 5
        assert plant.rate() == pytest.approx(1.0e6)


def test_shrinking_merges_pipelines_too():
    plant = Joker({"r": (1.0, 1.0)}, kinds={"r": "stateful"}, overhead=0.0, offered=0.9e6)
    loop = Controller(plant, Organic(shrink=True, **QUICK), Guards(catch_up=None))
    for step in range(200):
        if step == 60:
            assert plant.config["r"] == ((0, 1), 1)
            plant.offered = 0.2e6
        loop.step()
    assert plant.config["r"] == ((0,), 1)


def test_a_change_that_a_guard_refuses_does_not_stop_it():
    plant = Joker({"r": (4.0,)}, offered=1e9, overhead=0.0)
    path, reasons = run(
        plant, Organic(**QUICK), 30, Guards(bounds=(Bound(Knob.WORKERS, 1, 2),), catch_up=None)
    )
    assert path[-1]["r"][1] == 2
    assert any("was not made" in r for r in reasons)


def test_replicas_stay_below_their_limit():
    plant = Joker({"r": (1.0,)}, offered=1e9, overhead=0.0)
    run(plant, Organic(max_replicas=3, **QUICK), periods=30)
    assert plant.config["r"][1] == 3


def test_impossible_parameters_are_refused():
    for wrong in ({"order": "x"}, {"bottleneck": 0}, {"samples": 0}, {"load_change": 0}):
        with pytest.raises(PenstockError, match="Organic"):
            Organic(**wrong)
