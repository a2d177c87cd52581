"""Values to a column of a declared type, exactly: what would be cut, rounded or misread is refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

#: What Arrow raises where a value does not fit.
MISFIT = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    ValueError,
    TypeError,
    OverflowError,
)


def column_of(values: Any, kind: pa.DataType) -> Any:
    """A column from an Arrow array, a numpy array or a list; raises one of :data:`MISFIT` where a value does not fit.

    >>> column_of([1, 2.0], pa.int64()).to_pylist()
    [1, 2]
    >>> column_of([1.9], pa.int64())
    Traceback (most recent call last):
        ...
    pyarrow.lib.ArrowInvalid: Float value 1.900000 was truncated converting to int64
    """
    if isinstance(values, pa.ChunkedArray | pa.Array):
        return values if values.type == kind else values.cast(kind)
    if isinstance(values, np.ndarray) and values.dtype != object:
        return pa.array(values, kind)
    made = pa.array(values, kind)
    # Arrow cuts Python numbers and times to fit; whether it did shows in the column it would have made by itself.
    if pa.types.is_integer(kind):
        _refuse_cut(pa.array(values), kind)
    elif pa.types.is_temporal(kind):
        _refuse_cut_time(pa.array(values), made)
    return made


def misfits(values: Any, kind: pa.DataType) -> list[int]:
    """The places of the values that do not fit; looked for one by one, after the column as a whole was refused."""
    listed: Sequence[Any] = (
        values.to_pylist() if isinstance(values, pa.ChunkedArray | pa.Array) else list(values)
    )
    typed = isinstance(values, pa.ChunkedArray | pa.Array)
    return [at for at, value in enumerate(listed) if not _fits(value, kind, values.type if typed else None)]


def _fits(value: Any, kind: pa.DataType, given: pa.DataType | None) -> bool:
    try:
        column_of([value] if given is None else pa.array([value], given), kind)
    except MISFIT:
        return False
    return True


def _refuse_cut(loose: pa.Array, kind: pa.DataType) -> None:
    if not pa.types.is_integer(loose.type) and not pa.types.is_null(loose.type):
        loose.cast(kind)


def _refuse_cut_time(loose: pa.Array, made: pa.Array) -> None:
    if pa.types.is_temporal(loose.type) and not made.cast(loose.type).equals(loose):
        raise pa.ArrowInvalid(f"a {loose.type} would be cut to {made.type}")
    if pa.types.is_floating(loose.type):
        raise pa.ArrowInvalid(f"a number with a fraction is no {made.type}")
