"""Types of arrays, under the names that all modules use."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """Values as an array of objects, one place each, whatever they hold.

    >>> objects([[1, 2], [3, 4]]).shape
    (2,)
    """
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
