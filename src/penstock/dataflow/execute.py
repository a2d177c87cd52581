"""Run what one task has to run: the operators of a pipeline and those fused with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.dataflow.calls import DeadRows
from penstock.dataflow.invoke import Before, OperatorFigures, invoke
from penstock.dataflow.keys import hash_keys
from penstock.dataflow.rows import Chunk
from penstock.dataflow.wiring import Local, Send, Wiring, Write


class Store(Protocol):
    """Where the states of operators are."""

    def layers(self, operator: str) -> Sequence[pa.Table]:
        """The layers of an operator that hold the groups of this task."""

    def clock(self, operator: str) -> int | None:
        """The newest event time of the batches before."""

    def latest(self, operator: str) -> int | None:
        """Up to which event time tuples are believed; None: nothing is known yet."""

    def save(self, operator: str, layer: pa.Table) -> None:
        """Keep what changed."""

    def own(self, hashes: NDArray[Any]) -> NDArray[Any]:
        """Which hashes belong to this task; layers may hold others too."""


@dataclass
class Executor:
    """Takes tuples for operators of one task and hands on what they give out."""

    wiring: Wiring
    store: Store
    send: Callable[[Send, Chunk], None]
    write: Callable[[str, Chunk], None]
    #: Whether a hash belongs to this task; None where one task has all keys.
    owns: Callable[[NDArray[Any]], bool] | None = None
    #: The driver's time where the batch began, in microseconds.
    now: int = 0
    figures: dict[str, OperatorFigures] = field(default_factory=dict)
    dead: list[DeadRows] = field(default_factory=list)

    def run(self, operator: str, arrived: Mapping[str, Chunk]) -> None:
        """Call one operator and everything after it in this task."""
        task = self.wiring.tasks[operator]
        kind = task.spec.kind
        before = Before()
        if kind != "stateless":
            store = self.store
            before = Before(
                store.layers(operator), store.clock(operator), self.now, store.latest(operator), store.own
            )
        result = invoke(task, arrived, before)
        if result.layer is not None:
            self.store.save(operator, result.layer)
        self.figures.setdefault(operator, OperatorFigures()).add(result)
        self.dead += result.dead
        for port, chunk in result.outputs.items():
            self.hand_on(operator, port, chunk)

    def tick(self, operators: Sequence[str]) -> None:
        """Call for keys whose time has come at operators that no tuples came to."""
        for operator in operators:
            if operator not in self.figures and self.wiring.tasks[operator].spec.watches:
                self.run(operator, {})

    def hand_on(self, operator: str, port: str, chunk: Chunk) -> None:
        """Give the rows of an output port to all who take them."""
        for target in self.wiring.targets[operator, port]:
            if not chunk.rows:
                continue
            if isinstance(target, Write):
                self.write(target.sink, chunk)
                continue
            entering = self.wiring.tasks[target.operator].entering(target.port, chunk)
            if isinstance(target, Send):
                self.send(target, entering)
            else:
                self.run(target.operator, {target.port: self._checked(operator, target, entering)})

    def _checked(self, operator: str, target: Local, chunk: Chunk) -> Chunk:
        """Rows for a keyed operator of the same region must still be this task's own."""
        task = self.wiring.tasks[target.operator]
        if task.spec.kind != "partitioned":
            return chunk
        hashes = hash_keys(chunk.table, task.region_keys) if chunk.hashes is None else chunk.hashes
        if self.owns is not None and not self.owns(hashes):
            keys = ", ".join(task.region_keys)
            raise PenstockError(
                f"Operator '{operator}' changes the key ({keys}) that '{target.operator}' goes by; say so with changes=[...]."
            )
        return Chunk(chunk.table, chunk.positions, hashes)
