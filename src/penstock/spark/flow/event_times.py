"""Which event times the operators of a flow believe in one step: the driver's side of it."""

from collections.abc import Sequence
from dataclasses import replace

from penstock.core.belief import Judgement, judge, learned
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.flow_state import FlowState
from penstock.spark.flow.state_store import OperatorState
from penstock.spark.flow.task_report import TaskReport


class EventTimes:
    """Operator -> up to which time tuples are believed (``latest``): at first sight, then as the tuples show."""

    def __init__(self, definition: Definition, state: FlowState, now: int) -> None:
        self.now = now
        self._states = state.operators
        self._limits = {
            name: node.spec.limits
            for name, node in definition.graph.nodes.items()
            if node.spec.event_time and node.spec.kind != "stateless"
        }
        self.latest: dict[str, int | None] = {
            name: self._state(name).belief.latest(self._state(name).clock, now, limits)
            for name, limits in self._limits.items()
        }
        self._judged: dict[str, Judgement] = {}
        self._settled: set[str] = set()

    def overturned(self, reports: Sequence[TaskReport]) -> bool:
        """Judge what came of a run; whether the step must run again, since other times are to be believed.

        An operator is judged anew only once: what it then lets through changes what those after it see.
        """
        again = False
        for name, limits in self._limits.items():
            if name in self._settled:
                continue
            figures = [r.operators[name] for r in reports if name in r.operators]
            told = [some for f in figures for some in f.told]
            rows, latest = sum(f.timed for f in figures), self.latest[name]
            judged = judge(told, rows, self._state(name).belief, latest, self.now, limits)
            self._judged[name] = judged
            if judged.overturns(latest, told):
                self.latest[name] = judged.bound
                self._settled.add(name)
                again = True
        return again

    def remembered(self, state: FlowState) -> FlowState:
        """The state after the step, with what was learned."""
        operators = dict(state.operators)
        for name, judged in self._judged.items():
            before, after = self._state(name), operators.get(name, OperatorState())
            belief = learned(
                before.belief, judged, before.clock, after.clock, self.now, self._limits[name].ahead
            )
            if belief != before.belief:
                operators[name] = replace(after, belief=belief)
        return replace(state, operators=operators)

    def _state(self, name: str) -> OperatorState:
        return self._states.get(name, OperatorState())
