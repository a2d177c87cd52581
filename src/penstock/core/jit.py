"""Compiled loops: numba's ``njit`` with one set of defaults and with types kept."""

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, overload

import numba
from numba.core.compiler_lock import global_compiler_lock

F = TypeVar("F", bound=Callable[..., Any])

#: All loops of the modules that have been imported.
_LOOPS: list[Any] = []

#: Seconds to wait for another process that compiles the same loop: one that was stopped must not hold up the others.
_PATIENCE = 300.0


@overload
def jit(function: F) -> F: ...
@overload
def jit(**options: Any) -> Callable[[F], F]: ...
def jit(function: Any = None, **options: Any) -> Any:
    """Compile a loop over arrays on first use and keep the machine code on disk.

    The cache matters more here than usual: every Spark Python worker is a new process, and compiling anew in
    each costs seconds. Of processes that need a loop at the same time one compiles it and the others load what it
    kept. ``nogil`` lets threads of one process run compiled loops side by side.
    """
    compile_ = numba.njit(**{"cache": True, "nogil": True, **options})

    def kept(given: Any) -> Any:
        loop = compile_(given)
        if loop.stats.cache_path is not None:
            loop.compile = _in_turn(loop)
            _LOOPS.append(loop)
        return loop

    return kept if function is None else kept(function)


def load_kept() -> None:
    """Load what is kept on disk of the loops of all imported modules, and compile nothing.

    For a process that others are forked from: each of them then has the loops at once, and not after some tenths of a
    second of its own.
    """
    for loop in _LOOPS:
        # Numba's index is its own affair: what cannot be read here is loaded when it is needed.
        with contextlib.suppress(Exception):
            cache, target = loop._cache, loop.targetctx.codegen()
            for key in cache._cache_file._load_index():
                if key == cache._index_key(key[0], target):
                    type(loop).compile(loop, key[0])


def _in_turn(loop: Any) -> Callable[[Any], Any]:
    """Numba's ``compile``, which looks on disk first, by one process after the other.

    Numba itself lets several processes write the index of one loop at once, where one's entry may be lost or stand for
    what another compiled.
    """
    compile_, code = loop.compile, loop.py_func.__code__
    lock = Path(loop.stats.cache_path, f"{code.co_qualname}-{code.co_firstlineno}.lock")

    def compile_in_turn(signature: Any) -> Any:
        # The lock is the process's: its threads take turns by the compiler's own, which is taken first.
        with global_compiler_lock, _alone(lock):
            return compile_(signature)

    return compile_in_turn


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        # A folder that takes no locks costs a second compilation, nothing more.
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(path.open("w"))
            _await_lock(file)
        yield


def _await_lock(file: Any) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(BlockingIOError, PermissionError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.02)
