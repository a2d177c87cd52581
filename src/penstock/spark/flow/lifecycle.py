"""Operators live as long as their Python process: initialised once in each, shut down when another run takes over."""

import atexit
import contextlib
from dataclasses import replace

from penstock.dataflow.wiring import Task, Wiring

_ready: dict[tuple[str, str], Task] = {}


def ready(run: str, wiring: Wiring) -> Wiring:
    """The wiring with operators that are initialised in this process."""
    tasks = {name: _initialised(run, name, task) for name, task in wiring.tasks.items()}
    return replace(wiring, tasks=tasks)


def _initialised(run: str, name: str, task: Task) -> Task:
    key = (run, name)
    if key not in _ready:
        if any(other != run for other, _ in _ready):
            shut_down()
        task.operator.initialize(task.context)
        _ready[key] = task
    return _ready[key]


def shut_down() -> None:
    """Tell all operators of this process that they will not be called again."""
    while _ready:
        _, task = _ready.popitem()
        with contextlib.suppress(Exception):  # one operator's trouble must not keep the others from closing
            task.operator.shutdown()


atexit.register(shut_down)
