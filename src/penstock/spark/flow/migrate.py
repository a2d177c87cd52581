"""Change what a stopped flow's checkpoint holds: forget an operator's state, or have it under another name.

Every kept version is changed, each by one rename of its manifest, so a migration that is cut short can be run again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.core.errors import PenstockError, unknown
from penstock.core.names import check_name
from penstock.spark.flow.evolve import shapes_in
from penstock.spark.flow.flow_state import FlowState
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.durable import read_json
from penstock.spark.runtime.locations import location


def migrate(
    folder: str | Path, reset: Sequence[str] = (), rename: Mapping[str, str] | None = None
) -> list[str]:
    """Forget the states of some operators, rename others; what was done, in sentences."""
    identity = location(folder) / "penstock" / "identity.json"
    if not identity.exists() or read_json(identity).get("kind") != "flow":
        raise PenstockError(f"'{folder}' is not a checkpoint of a flow; name the folder given to start().")
    held = Checkpoint(folder, read_json(identity))
    try:
        versions = [held.read(batch) for batch in held.batches]
        if not versions:
            raise PenstockError(
                f"The checkpoint '{folder}' has no committed batch; there is nothing to migrate."
            )
        states = [FlowState.from_json(v.state) for v in versions]
        changed = [_changed(s, held.identity, reset, rename or {}) for s in states]
        for version, state in zip(versions, changed, strict=True):
            held.rewrite(replace(version, state=state.to_json(), files=state.files))
    finally:
        held.close()
    done = [f"The state of '{name}' is forgotten." for name in reset]
    return [*done, *(f"The state of '{old}' is now that of '{new}'." for old, new in (rename or {}).items())]


def _changed(
    state: FlowState, identity: Mapping[str, object], reset: Sequence[str], rename: Mapping[str, str]
) -> FlowState:
    shapes, operators = shapes_in(state, identity), dict(state.operators)
    for name in [*reset, *rename]:
        if name not in shapes:
            raise unknown("operator with a state", name, shapes)
    if state.deferred:
        raise PenstockError(
            "Parts of batches wait for a later segment; start the flow once as it was and stop it, and then migrate."
        )
    for name in reset:
        operators.pop(name, None)
        del shapes[name]
    for old, new in rename.items():
        if check_name(new, "operator") in shapes:
            raise PenstockError(f"There is an operator '{new}' in the checkpoint already; reset it first.")
        shapes[new] = shapes.pop(old)
        if old in operators:
            operators[new] = operators.pop(old)
    return replace(state, shapes=shapes, operators=operators)
