"""Go on from a checkpoint with a flow that may have changed since; what cannot be carried over is refused.

What is decided here is committed with the next batch: a start that dies before it leaves the checkpoint as it was.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.core.errors import PenstockError
from penstock.dataflow.evolution import Shape, outdated
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.flow_state import FlowState
from penstock.spark.flow.state_store import OperatorState
from penstock.spark.runtime.identity import OPERATOR


def evolved(state: FlowState, definition: Definition, identity: Mapping[str, Any]) -> FlowState:
    """The committed state as the flow of now takes it over.

    ``identity`` is that of the checkpoint, which says what version 0.1 knew of the operators.
    """
    before = shapes_in(state, identity)
    now = definition.shapes
    sources = tuple(definition.graph.sources)
    if state.sources is not None and state.sources != sources:
        raise PenstockError(
            f"The flow '{definition.graph.name}' had the sources {', '.join(state.sources)} and has {', '.join(sources)}; "
            "offsets go by a source's place, so keep the sources as they were, or start with a new checkpoint folder."
        )
    known = {
        n: replace(s, region=now[n].region if n in now else None)
        for n, s in before.items()
        if s.region is None
    }
    if state.deferred and ({**before, **known} != now or not _same_channels(state, definition)):
        raise PenstockError(
            f"The flow '{definition.graph.name}' changed while parts of its batches wait for a later segment; start it once "
            "as it was and stop it, and then as it is now."
        )
    _refuse_rows_without_function(state, definition)
    _refuse_renaming(state, before, now)
    operators = {
        name: _taken_over(name, kept, before[name], now[name])
        for name, kept in state.operators.items()
        if name in now and name in before
    }
    regions = {name: region.name for region in definition.regions for name in region.operators}
    channels = definition.channels
    taken = replace(
        state, operators=operators, shapes=now, sources=sources, regions=regions, channels=channels
    )
    return _with_clocks(taken, definition)


def _taken_over(name: str, kept: OperatorState, before: Shape, now: Shape) -> OperatorState:
    """The state of an operator; a time to live that came begins now."""
    taken = kept.ignoring(outdated(name, before, now))
    return replace(taken, since=taken.clock) if now.ttl and not before.ttl else taken


def _with_clocks(state: FlowState, definition: Definition) -> FlowState:
    """The same without the clocks of operators that go by no event time any more: they would stand still."""
    specs = {name: node.spec for name, node in definition.graph.nodes.items()}
    operators = {
        name: kept if specs[name].event_time else replace(kept, clock=None, since=None)
        for name, kept in state.operators.items()
    }
    return replace(state, operators=operators)


def shapes_in(state: FlowState, identity: Mapping[str, Any]) -> dict[str, Shape]:
    """The shapes that a state was written under."""
    if state.shapes is not None:
        return dict(state.shapes)
    return {
        key.removeprefix(OPERATOR): Shape.of_first_version(value)
        for key, value in identity.items()
        if key.startswith(OPERATOR)
    }


def _same_channels(state: FlowState, definition: Definition) -> bool:
    """Whether messages that wait find the operators that they were sent to."""
    if state.channels is not None:
        return state.channels == definition.channels
    regions = {region.name for region in definition.regions}
    return all(set(deferred.plan.regions) == regions for deferred in state.deferred)


def _refuse_rows_without_function(state: FlowState, definition: Definition) -> None:
    """A run that was not stopped may have died before a function had its rows; if that is gone, they would be lost."""
    functions = {name for name, sink in definition.graph.sinks.items() if callable(sink.to)}
    for batch, name, _ in state.handed:
        if name not in functions:
            raise PenstockError(
                f"The function of the sink '{name}', which is gone, may not have got the rows of batch {batch}, since the run "
                f"before was not stopped; start the flow once with a function for '{name}' and stop it, and then as it is now."
            )


def _refuse_renaming(state: FlowState, before: Mapping[str, Shape], now: Mapping[str, Shape]) -> None:
    """An operator that has a state and is gone, while another one came, may be the same under another name."""
    gone = [name for name in before if name not in now and state.operators.get(name)]
    came = [name for name in now if name not in before]
    if gone and came:
        raise PenstockError(
            f"The operator '{gone[0]}' has a state and is gone, and '{came[0]}' is new. If they are the same, keep the name "
            f"with name='{gone[0]}', or rename the state with 'penstock state migrate CHECKPOINT --rename {gone[0]}={came[0]}'; "
            f"if not, forget the state with 'penstock state migrate CHECKPOINT --reset {gone[0]}'."
        )
