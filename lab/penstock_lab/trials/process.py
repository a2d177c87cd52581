"""A trial in a process of its own, from its request to the result that it leaves in its folder."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError


def result_of(module: str, request: Path, folder: Path, name: str, patience: float) -> Any:
    """Run a module with a request; the arrays of the ``result.npz`` that it leaves in ``folder``."""
    command = [sys.executable, "-m", module, str(request)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired as late:
        raise PenstockError(
            f"The trial of {name} took more than {patience:.0f} s; run it again on a quieter machine."
        ) from late
    if done.returncode or not (folder / "result.npz").exists():
        why = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise PenstockError(f"The trial of {name} failed ({why}); run it again on a quieter machine.")
    return np.load(folder / "result.npz")
