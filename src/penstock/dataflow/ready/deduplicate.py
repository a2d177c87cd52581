"""Deduplication: the first row of each key, and no other for some time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Ints
from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.dataflow.operators import Names, Operator, Properties, make_spec, names_of
from penstock.dataflow.ready.event_times import check_seconds, micros
from penstock.dataflow.rows import event_times


def deduplicate(
    *, keys: Names, time: str | None = None, within: float | None = None, slack: float = 0.0
) -> Operator:
    """Pass a row on if its key is new, or its time more than ``within`` seconds after that of the key's last row passed on.

    Without ``within`` a key is remembered for ever; with it, until event time (of the column ``time``) has come ``within + slack`` seconds past
    its newest row: results do not depend on the micro-batches as long as rows are at most ``slack`` seconds out of order.

    >>> import penstock, pyarrow as pa
    >>> from penstock.dataflow import Reference, deduplicate
    >>> flow = penstock.Flow("once")
    >>> rows = flow.source("rows", {"id": int, "at": float})
    >>> _ = rows.through(deduplicate(keys="id", time="at", within=60)).sink("rows")
    >>> Reference(flow).run({"rows": pa.table({"id": [1, 1, 2, 1], "at": [0.0, 9.0, 9.0, 61.0]})})["rows"].to_pylist()
    [{'id': 1, 'at': 0.0}, {'id': 2, 'at': 9.0}, {'id': 1, 'at': 61.0}]
    """
    if (time is None) != (within is None):
        raise PenstockError(
            "time= and within= go together: the column of the event time, and for how long a key is a duplicate."
        )
    if within is not None:
        check_seconds("within", within, positive=True)
    check_seconds("slack", slack)
    return _Deduplicate(names_of(keys, "keys"), time, within, slack)


class _Deduplicate(Operator):
    def __init__(self, keys: tuple[str, ...], time: str | None, within: float | None, slack: float) -> None:
        self.time, self.within = time, within
        given: Properties = {"keys": keys, "state": {"passed": int}}
        if time is not None and within is not None:
            given["ttl"] = (time, within + slack)
        self.spec = make_spec(self.spec, given)

    @property
    def label(self) -> str:
        return "deduplicate"

    def invoke(self, inputs: Any, state: Any, output: Any) -> None:
        if self.time is None or self.within is None:
            times, within = np.zeros(len(inputs), dtype=np.int64), 0
        else:
            times, within = event_times(inputs.column(self.time)), micros(self.within)
        kept = _first(inputs.slots, times, state["passed"], state.new.copy(), within)
        output.emit(inputs.take(kept), at=inputs.positions[kept])


@jit
def _first(
    slots: Ints,
    times: Ints,
    passed: Ints,
    new: NDArray[np.bool_],
    within: int,
) -> Ints:
    """The rows to pass on; ``passed`` holds the time of each key's last one."""
    kept = np.empty(len(slots), dtype=np.int64)
    count = 0
    for row in range(len(slots)):
        slot = slots[row]
        if new[slot] or times[row] > passed[slot] + within:
            new[slot] = False
            passed[slot] = times[row]
            kept[count] = row
            count += 1
    return kept[:count].copy()
