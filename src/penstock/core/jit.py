"""Compiled loops: numba's ``njit`` with one set of defaults and with types kept."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numba

F = TypeVar("F", bound=Callable[..., Any])


@overload
def jit(function: F) -> F: ...
@overload
def jit(**options: Any) -> Callable[[F], F]: ...
def jit(function: Any = None, **options: Any) -> Any:
    """Compile a loop over arrays on first use and keep the machine code on disk.

    The cache matters more here than usual: every Spark Python worker is a new process, and compiling anew in
    each costs seconds. ``nogil`` lets threads of one process run compiled loops side by side.
    """
    compile_ = numba.njit(**{"cache": True, "nogil": True, **options})
    return compile_ if function is None else compile_(function)
