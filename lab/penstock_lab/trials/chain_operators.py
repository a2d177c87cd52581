"""A chain of operators in one streaming query, each in a control group of its own.

Spark runs chained ``mapInArrow`` functions in one task, each in a Python worker of its own, side by side: while the second
operator works on a batch of rows the first prepares the next. A worker may serve another operator in its next task,
so it joins the group of the operator it is about to run as the task begins, and the quota holds wherever the task
lands on this host.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.core.errors import PenstockError
from penstock.spark.actuators.cpu_share import join

#: Takes and gives a record batch.
Function = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True)
class ChainOperator:
    """A name, a function of record batches, and the schema (in Spark's words) of what it gives."""

    name: str
    function: Function
    schema: str


@dataclass(frozen=True)
class Use:
    """What one task of one operator took: rows, CPU seconds, and seconds of the wall clock in the function."""

    operator: str
    rows: int
    cpu: float
    wall: float


class _Task:
    """What runs in the Python worker; small, since it is sent with every task."""

    def __init__(self, operator: ChainOperator, group: str, uses: str) -> None:
        self._operator, self._group, self._uses = operator, group, uses

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self._group:
            join(self._group)
        rows, cpu, wall = 0, 0.0, 0.0
        for batch in batches:
            began, used = time.perf_counter(), time.thread_time()
            made = self._operator.function(batch)
            rows, cpu, wall = (
                rows + batch.num_rows,
                cpu + time.thread_time() - used,
                wall + time.perf_counter() - began,
            )
            yield made
        if rows and self._uses:
            _append(Path(self._uses), f"{self._operator.name} {rows} {cpu:.6f} {wall:.6f}\n")


def chain(
    rows: DataFrame,
    operators: Sequence[ChainOperator],
    groups: dict[str, str] | None = None,
    uses: Path | None = None,
) -> DataFrame:
    """The rows through all operators; ``groups`` names the folder of each operator's control group.

    What every task took is appended to the file ``uses``, one line a task; :func:`read_uses` reads it.
    """
    if len({o.name for o in operators}) < len(operators) or not operators:
        raise PenstockError("A chain needs operators, each with a name of its own.")
    for operator in operators:
        group = (groups or {}).get(operator.name, "")
        task = _Task(operator, group, str(uses) if uses is not None else "")
        rows = rows.mapInArrow(task, operator.schema)
    return rows


def branch(
    rows: DataFrame,
    operators: Sequence[ChainOperator],
    groups: dict[str, str] | None = None,
    uses: Path | None = None,
) -> None:
    """One batch through the first operator, and what it gives through each of the others, side by side."""
    head, *others = operators
    parsed = chain(rows, [head], groups, uses).persist()
    try:
        parsed.count()  # the head works once; without this each branch would run it again
        with ThreadPoolExecutor(len(others), "branch") as pool:
            list(pool.map(lambda o: _work_off(chain(parsed, [o], groups, uses)), others))
    finally:
        parsed.unpersist()


def _work_off(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def read_uses(path: Path, offset: int) -> tuple[list[Use], int]:
    """Lines appended since ``offset``, and the new offset; a line that is still being written is left for later."""
    if not path.exists():
        return [], offset
    with path.open("rb") as file:
        file.seek(offset)
        whole = file.read().rpartition(b"\n")[0]
    lines = whole.decode().splitlines()
    uses = [Use(name, int(n), float(c), float(w)) for name, n, c, w in (line.split() for line in lines)]
    return uses, offset + (len(whole) + 1 if whole else 0)


def _append(path: Path, line: str) -> None:
    """One write to a file opened for appending is not torn by others that do the same."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
