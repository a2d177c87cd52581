"""What ``penstock autoscale`` says while a program runs: where to look, then a line per change or half minute."""

import time
from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Protocol

from penstock.core.controller import Step
from penstock.core.observation import Observation

if TYPE_CHECKING:
    from penstock.spark.attach.autoscaler import Autoscaler

#: Seconds without a change after which a line tells how things stand.
EVERY = 30.0


class Say(Protocol):
    """Where the lines go."""

    def __call__(self, text: str) -> object:
        """Say one line."""


class Narrator:
    """Tells what an autoscaler sees and does; ``now`` is the clock by which half a minute is over."""

    def __init__(self, say: Say, now: Callable[[], float] = time.monotonic) -> None:
        self._say, self._now = say, now
        self._rows = 0.0
        self._told = now()

    def begin(self, autoscaler: "Autoscaler", master: str, application: str) -> None:
        """Where everything is, before the first rows."""
        settings = autoscaler.settings
        bounds = settings.executors
        policy = getattr(autoscaler.controller.policy, "name", autoscaler.controller.policy)
        knobs = "no executors to change" if bounds is None else f"{bounds[0]} to {bounds[1]} executors"
        aim = "no target" if settings.target is None else f"target {settings.target:g} s"
        self._say(f"application {application} on {master}: policy {policy}, {knobs}, {aim}")
        for name, where in (
            ("journal", str(autoscaler.journal)),
            ("page", autoscaler.page_address),
            ("metrics", f"http://{autoscaler.metrics_address}/metrics" if autoscaler.metrics_address else ""),
        ):
            if where:
                self._say(f"{name}: {where}")
        self._say("waiting for the first rows of a streaming query")
        autoscaler.controller.observed.add(self.observed)
        autoscaler.controller.stepped.add(self.stepped)

    def observed(self, observation: Observation) -> None:
        """A look at the queries."""
        came = sum(s.tuples_in for s in observation.stages if isfinite(s.tuples_in))
        if came > 0 and not self._rows:
            self._say(f"first rows of {', '.join(s.name for s in observation.stages)}")
            self._told = self._now()
        self._rows += came
        if self._rows and self._now() - self._told >= EVERY:
            self._line(state(observation))

    def stepped(self, step: Step) -> None:
        """A decision: told where something was wanted."""
        if step.decision.changes:
            made = ", ".join(map(str, step.decision.changes))
            what = {"dry-run": "would make", "paused": "paused, would make"}.get(step.mode, "made")
            if not step.mode and (step.applied is None or not step.applied.changes):
                what = "could not make"
            self._line(f"{what} {made}: {step.decision.reason}  [{state(step.observation)}]")
        elif step.wanted.changes:
            held = "; ".join(step.notes) or "held by a guard"
            self._line(f"wanted {', '.join(map(str, step.wanted.changes))}, not made: {held}")

    def _line(self, text: str) -> None:
        self._told = self._now()
        self._say(f"{time.strftime('%H:%M:%S')}  {text}")


def state(observation: Observation) -> str:
    """How things stand, in a few words."""
    parts = []
    for stage in observation.stages:
        figures = [
            (stage.arrival_rate, "{:,.0f} rows/s"),
            (stage.utilisation, "load {:.0%}"),
            (stage.latency.p95, "P95 {:.3g} s"),
        ]
        told = ", ".join(form.format(value) for value, form in figures if isfinite(value))
        parts.append(f"{stage.name}: {told or 'no rows yet'}")
    if observation.executors is not None:
        parts.append(f"{observation.executors.observed} of {observation.executors.planned} executors")
    return "; ".join(parts)
