"""Keyed state in files: layers by operator, each valid for some key groups, read by mapping and never changed.

The driver keeps, for each operator, which files make up its state and for which groups each of them still counts. A
task gets that list and the groups of its replica; what it changed it writes as one new layer, merged with the layers
before it that are no larger. So each layer is larger than all later ones together: there are few of them (the logarithm
of the state over a batch), and a row is written as many times, however large the state is. A group that moves is simply
read by another task from then on.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.belief import Belief
from penstock.dataflow.evolution import carried
from penstock.dataflow.keys import group_of
from penstock.dataflow.layers import first_hash, hashes_of, merge, overlaid
from penstock.dataflow.wiring import Task
from penstock.spark.flow.task_report import WrittenLayer
from penstock.spark.runtime.arrow_data import read_segment, write_segments

#: Keys that expire are forgotten where all layers are merged: at the latest after so many batches.
FORGET_AFTER = 64


@dataclass(frozen=True)
class LayerFile:
    """A state file and the groups for which it counts."""

    file: str
    groups: tuple[int, ...]
    rows: int
    batch: int
    #: Columns of the file that do not count any more, since the operator did without them at some start.
    ignored: frozenset[str] = frozenset()

    def without(self, groups: frozenset[int]) -> "LayerFile":
        """The same file, no longer counting for some groups."""
        return replace(self, groups=tuple(g for g in self.groups if g not in groups))

    def to_json(self) -> list[Any]:
        """Plain values; groups as runs, since neighbours mostly stay together."""
        return [self.file, runs(self.groups), self.rows, self.batch, sorted(self.ignored)]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> "LayerFile":
        """The value that ``to_json`` gave."""
        groups = tuple(g for a, b in value[1] for g in range(a, b))
        return cls(value[0], groups, value[2], value[3], frozenset(*value[4:]))  # version 0.1 wrote four


@dataclass(frozen=True)
class OperatorState:
    """What the driver knows of an operator's state: its files, oldest first, and its event clock."""

    layers: tuple[LayerFile, ...] = ()
    clock: int | None = None
    #: What is believed of the event times of the tuples that come.
    belief: Belief = field(default_factory=Belief)
    #: The event clock where the time to live began that is in force, for keys that were there before it.
    since: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        layers = [layer.to_json() for layer in self.layers]
        return {
            "layers": layers,
            "clock": self.clock,
            "belief": self.belief.to_json(),
            "since": self.since,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "OperatorState":
        """The value that ``to_json`` gave."""
        belief = Belief.from_json(value["belief"]) if "belief" in value else Belief()
        layers, clock = tuple(LayerFile.from_json(v) for v in value["layers"]), value["clock"]
        return cls(layers, clock, belief, value.get("since", clock))

    def written(self, new: LayerFile, replaced: Collection[str] = ()) -> "OperatorState":
        """The state after a task wrote a layer for its groups, in the place of what some files held of them."""
        gone = frozenset(new.groups)
        before = (layer.without(gone) if layer.file in replaced else layer for layer in self.layers)
        return replace(self, layers=(*(layer for layer in before if layer.groups), new))

    def ignoring(self, columns: frozenset[str]) -> "OperatorState":
        """The state without some columns of the layers written so far."""
        layers = tuple(replace(layer, ignored=layer.ignored | columns) for layer in self.layers)
        return replace(self, layers=layers)

    def at(self, clock: int | None) -> "OperatorState":
        """The state with its event clock moved on."""
        if clock is None:
            return self
        now = clock if self.clock is None else max(clock, self.clock)
        return replace(self, clock=now, since=now if self.since is None else self.since)


@dataclass
class TaskStore:
    """The states as one task sees them: only its own groups, only what counts."""

    folder: str
    prefix: str
    groups: int
    owned: tuple[int, ...]
    states: Mapping[str, OperatorState]
    ttl: Mapping[str, float] = field(default_factory=dict)
    #: Operator -> up to which event time tuples are believed.
    beliefs: Mapping[str, int | None] = field(default_factory=dict)
    #: What was written.
    written: list[WrittenLayer] = field(default_factory=list)
    #: Groups that this replica did not have in the batch before.
    arrived: frozenset[int] = frozenset()
    #: The operators as they are now: layers may be of a time when they were different.
    tasks: Mapping[str, Task] = field(default_factory=dict)
    batch: int = 0

    def layers(self, operator: str) -> list[pa.Table]:
        """The layers of this task's groups, oldest first."""
        return [table for _, table in self._own_layers(operator)]

    def _own_layers(self, operator: str) -> list[tuple[LayerFile, pa.Table]]:
        state = self.states.get(operator, OperatorState())
        found = ((layer, self._own(layer, operator)) for layer in state.layers)
        return [(layer, table) for layer, table in found if table is not None]

    def own(self, hashes: NDArray[Any]) -> NDArray[Any]:
        """Which hashes belong to the groups of this task."""
        mine = np.zeros(self.groups, dtype=bool)
        mine[list(self.owned)] = True
        return mine[group_of(hashes, self.groups)]

    def clock(self, operator: str) -> int | None:
        """The newest event time of the batches before."""
        return self.states.get(operator, OperatorState()).clock

    def latest(self, operator: str) -> int | None:
        """Up to which event time tuples are believed; None: nothing is known yet."""
        return self.beliefs.get(operator)

    def save(self, operator: str, layer: pa.Table) -> None:
        """Write what changed, together with the layers that are to be merged with it."""
        before = self._own_layers(operator)
        sizes = [self._rows_owned(table, operator) for _, table in before]
        first = _merged_from(sizes, layer.num_rows)
        if before and self.ttl.get(operator) is not None and self.batch - before[0][0].batch >= FORGET_AFTER:
            first = 0
        old = before[first:]
        if old:
            tables = [*(self._trimmed(table, operator) for _, table in old), layer]
            layer = merge(tables, self._oldest(operator)) if first == 0 else overlaid(tables)
        name = write_segments(self.folder, f"{self.prefix}-{operator}-{self.owned[0]}", layer.schema, [layer])
        replaced = tuple(file.file for file, _ in old)
        self.written.append(WrittenLayer(operator, name, layer.num_rows, replaced))

    def _oldest(self, operator: str) -> int | None:
        clock = self.clock(operator)
        seconds = self.ttl.get(operator)
        return None if clock is None or seconds is None else clock - int(seconds * 1e6)

    def _own(self, layer: LayerFile, operator: str) -> pa.Table | None:
        """The layer if it counts for any of the own groups; cut down only where it counts for some of them no longer."""
        mine = set(self.mine(operator))
        useful = mine & set(layer.groups)
        if not useful:
            return None
        table = read_segment(self.folder, layer.file, 0)
        if operator in self.tasks:
            table = carried(table, self.tasks[operator], self.states[operator].since, layer.ignored)
        dead = mine - useful
        if dead and counts_by_group(table, self.groups)[sorted(dead)].any():
            return rows_of(table, sorted(useful), self.groups)
        return table

    def mine(self, operator: str) -> tuple[int, ...]:
        """The groups of this task; a stateful operator has all its state in the first one."""
        return self.owned

    def _rows_owned(self, table: pa.Table, operator: str) -> int:
        return int(counts_by_group(table, self.groups)[list(self.mine(operator))].sum())

    def _trimmed(self, table: pa.Table, operator: str) -> pa.Table:
        mine = self.mine(operator)
        whole = self._rows_owned(table, operator) == table.num_rows
        return table if whole else rows_of(table, mine, self.groups)


def _merged_from(sizes: Sequence[int], new: int) -> int:
    """The first of the layers that a new one of so many rows is merged with; their number where it stays alone.

    >>> _merged_from([100, 10], 3), _merged_from([100, 10], 10), _merged_from([100, 60], 60)
    (2, 1, 0)
    """
    first = len(sizes)
    while first and sizes[first - 1] <= new:
        first -= 1
        new += sizes[first]
    return first


def bounds(table: pa.Table, groups: int) -> NDArray[np.int64]:
    """Where the rows of each group begin, and where the last one's end."""
    starts = np.array([first_hash(g, groups) for g in range(groups)], dtype=np.uint64)
    return np.append(np.searchsorted(hashes_of(table), starts), table.num_rows)


def counts_by_group(table: pa.Table, groups: int) -> NDArray[np.int64]:
    """How many rows of a layer each group has."""
    return np.diff(bounds(table, groups))


def rows_of(table: pa.Table, chosen: Sequence[int], groups: int) -> pa.Table:
    """The rows of some groups."""
    edges = bounds(table, groups)
    pieces = [table.slice(int(edges[a]), int(edges[b] - edges[a])) for a, b in runs(tuple(chosen))]
    return pa.concat_tables(pieces).combine_chunks() if pieces else table.slice(0, 0)


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Rising numbers as runs from (including) to (excluding).

    >>> runs([1, 2, 3, 7])
    [(1, 4), (7, 8)]
    """
    out: list[tuple[int, int]] = []
    for n in sorted(numbers):
        if out and out[-1][1] == n:
            out[-1] = (out[-1][0], n + 1)
        else:
            out.append((n, n + 1))
    return out
