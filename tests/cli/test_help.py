"""``penstock --help`` is there at once: what computes is loaded by the command that needs it."""

import subprocess
import sys

from waiting import PATIENCE

CODE = """
import sys
from penstock.cli import app
app(["--help"], standalone_mode=False)
heavy = {"numpy", "scipy", "numba", "pyarrow", "pyspark", "pandas", "matplotlib", "multiprocessing", "rich.markdown"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_help_loads_nothing_that_computes():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    for command in ("autoscale", "doctor", "report", "run", "simulate", "state", "trace"):
        assert command in done.stdout
