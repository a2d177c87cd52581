"""Compiled loops: of several processes one compiles, and none waits for ever."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from penstock.core import jit as jit_module
from penstock.core.jit import jit

CHILD = """
import sys
import numpy as np
from penstock.core.jit import jit, load_kept

@jit
def summed(values):
    total = 0.0
    for value in np.sort(values):
        total += value
    return total

print("ready", flush=True)
if sys.stdin.readline() == "load\\n":
    load_kept()
    print(len(summed.overloads), end=" ")
print(summed(np.arange(5.0)), sum(summed.stats.cache_misses.values()), flush=True)
"""


def children(folder, count):
    """Processes that have the loop and wait for a line to begin."""
    script = folder / "loops.py"
    if not script.exists():  # a newer file would make what is kept out of date
        script.write_text(CHILD)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    started = [
        subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(count)
    ]
    for child in started:
        assert child.stdout.readline() == "ready\n"
    return started


def test_processes_that_need_a_loop_at_the_same_time_compile_it_once_and_later_ones_can_load_it(tmp_path):
    both = children(tmp_path, 2)
    for child in both:
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate()[0].split() for child in both]
    assert sorted(said) == [["10.0", "0"], ["10.0", "1"]]
    (later,) = children(tmp_path, 1)
    assert later.communicate("load\n")[0].split() == ["1", "10.0", "0"]


def doubled(values):
    return values * 2.0


def doubled_too(values):
    return values * 2.0


@pytest.mark.parametrize("function", [doubled, doubled_too])
def test_a_process_that_holds_the_lock_for_ever_or_a_folder_without_locks_stop_nobody(
    function, tmp_path, monkeypatch
):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit_module, "_PATIENCE", 0.1)
    loop = jit(function)
    folder = Path(loop.stats.cache_path)
    lock = folder / f"{function.__name__}-{function.__code__.co_firstlineno}.lock"
    if function is doubled:
        folder.mkdir(parents=True, exist_ok=True)
        holder = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
        with subprocess.Popen(
            [sys.executable, "-c", holder, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            child.stdout.readline()
            with lock.open("w") as file, pytest.raises(OSError):
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert loop(np.ones(2)).tolist() == [2.0, 2.0]
            child.communicate(b"\n")
    else:
        lock.mkdir(parents=True)
        assert loop(np.ones(2)).tolist() == [2.0, 2.0]
