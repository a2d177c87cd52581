"""A chain of operators as a plant, with quotas that only remember."""

from math import isnan
from types import SimpleNamespace

import pytest

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.spark.attach.batch_history import SeenBatch
from penstock_lab.trials.chain_plant import ChainPlant


class Shares:
    levels = (0.4, 0.7, 1.0)

    def __init__(self):
        self.shares = {}

    def set_share(self, name, share):
        self.shares[name] = share


@pytest.fixture
def world(tmp_path):
    batches, shares = [], Shares()
    watch = SimpleNamespace(take=lambda: [batches.pop(0) for _ in list(batches)])
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    plant = ChainPlant(["a", "b"], lambda: watch, shares, tmp_path / "uses", 1.0, clock)
    return SimpleNamespace(plant=plant, batches=batches, shares=shares, uses=tmp_path / "uses")


def test_operators_begin_with_the_most_they_may_have(world):
    assert world.shares.shares == {"a": 1.0, "b": 1.0}


def test_demands_and_overhead_are_found_from_what_tasks_took(world):
    world.batches += [SeenBatch(0, 0.0, 0.5, 100, 1.0), SeenBatch(1, 1.0, 0.5, 100, 1.0)]
    world.uses.write_text("a 200 0.02 0.02\nb 200 0.40 0.60\n")
    seen = world.plant.observe()
    first, second = seen.stages
    assert first.arrival_rate == pytest.approx(100.0)
    assert second.service_time == pytest.approx(0.002)
    assert second.overhead_time == pytest.approx((1.0 - 0.6) / 2)
    assert second.utilisation == pytest.approx(0.2 / 0.8)
    assert first.downstream == ("b",)
    assert first.interarrivals.mean() == pytest.approx(
        0.01
    )  # read from the batches: the source tells no times
    assert second.interarrivals is None


def test_a_quota_is_set_and_everything_else_refused(world):
    good, bad = Change(Knob.CPU_SHARE, "b", 0.4), Change(Knob.WORKERS, "b", 3)
    applied = world.plant.apply(Decision((good, bad), "because"))
    assert applied.changes == (good,)
    assert world.shares.shares["b"] == 0.4
    assert "CPU shares" in applied.refused[0][1]
    assert world.plant.observe().stages[1].cpu_share.planned == 0.4


def test_before_the_first_batch_everything_is_unknown(world):
    seen = world.plant.observe()
    assert isnan(seen.stages[0].service_time)
    assert isnan(seen.stages[0].arrival_rate)


def test_branches_begin_when_the_first_operator_is_through(tmp_path):
    batches = [SeenBatch(0, 0.0, 1.0, 100, 1.0)]
    watch = SimpleNamespace(take=lambda: [batches.pop(0) for _ in list(batches)])
    uses = tmp_path / "uses"
    plant = ChainPlant(["parser", "matcher", "counter"], lambda: watch, Shares(), uses, 1.0, branched=True)
    uses.write_text("parser 100 0.2 0.2\nmatcher 100 0.5 0.5\ncounter 100 0.1 0.1\n")
    seen = plant.observe()
    parser, matcher, counter = seen.stages
    assert parser.downstream == ("matcher", "counter")
    assert matcher.downstream == counter.downstream == ()
    assert [s.level for s in seen.stages] == [0.0, 1.0, 1.0]
    assert parser.overhead_time == pytest.approx(1.0 - 0.2 - 0.5)
