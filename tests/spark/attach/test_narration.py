"""What ``penstock autoscale`` says while a program runs."""

from penstock.core.capacity import Capacity, Knob
from penstock.core.controller import Step
from penstock.core.decision import Change, Decision
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.core.plant import Applied
from penstock.spark.attach.narration import Narrator


def seen(rows=100.0):
    stage = StageObservation(
        "orders",
        Capacity.steady(2),
        arrival_rate=50.0,
        tuples_in=rows,
        utilisation=0.5,
        latency=Latency(p95=1.5),
    )
    return Observation(10.0, 2.0, (stage,), executors=Capacity(3, 3, 2))


def a_step(changes=(), wanted=None, mode="", applied=True, notes=()):
    decision = Decision(changes, "the load is high")
    done = Applied(changes) if changes and applied else None
    return Step(seen(), Decision(wanted or changes, "more"), decision, notes, mode, done)


def test_a_line_comes_with_the_first_rows_with_every_change_and_every_half_minute():
    said, clock = [], [0.0]
    narrator = Narrator(said.append, now=lambda: clock[0])
    narrator.observed(seen(rows=0.0))
    clock[0] = 100.0
    narrator.observed(seen(rows=0.0))
    assert said == [], "nothing to tell before the first rows"
    narrator.observed(seen())
    narrator.observed(seen())
    assert said == ["first rows of orders"]
    clock[0] += 31
    narrator.observed(seen())
    assert said[-1].endswith("orders: 50 rows/s, load 50%, P95 1.5 s; 2 of 3 executors")
    narrator.observed(seen())
    assert len(said) == 2
    grow = (Change(Knob.EXECUTORS, "", 4),)
    for step, words in (
        (a_step(grow), "made executors 4: the load is high"),
        (a_step(grow, mode="dry-run", applied=False), "would make executors 4"),
        (a_step(grow, applied=False), "could not make executors 4"),
        (a_step(wanted=grow, notes=("still starting",)), "wanted executors 4, not made: still starting"),
    ):
        narrator.stepped(step)
        assert words in said[-1]
    count = len(said)
    narrator.stepped(a_step())
    assert len(said) == count, "a decision that wants nothing is no news"
