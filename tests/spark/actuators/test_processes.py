"""Processes as /proc shows them."""

import os
import subprocess
import sys

from penstock.spark.actuators.processes import command_line, started_at, tree


def test_a_tree_holds_a_process_and_its_descendants():
    code = "import subprocess; p = subprocess.Popen(['sleep', '900']); print(p.pid, flush=True); p.wait()"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert tree(parent.pid) == [parent.pid, child]
    assert parent.pid in tree(os.getpid())
    assert command_line(child) == ["sleep", "900"]
    os.kill(child, 9)
    parent.wait()
    assert started_at(parent.pid) is None
    assert command_line(parent.pid) == []


def test_a_zombie_counts_as_gone():
    child = subprocess.Popen(["true"])
    while started_at(child.pid) is not None:
        pass
    assert child.wait() == 0
