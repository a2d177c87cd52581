"""Moves hot key groups of a running flow."""

import numpy as np
from numpy.typing import NDArray

from penstock.dataflow.routing import is_uneven, rebalance
from penstock.spark.flow.profile import Profile
from penstock.spark.flow.program import FlowProgram


class Rebalancer:
    """Moves hot key groups when replicas stay uneven for some batches (MPC: largest load above 1.3 times the smallest)."""

    def __init__(self, program: FlowProgram, patience: int = 3, past: float = 0.7) -> None:
        self._program, self._patience, self._past = program, patience, past
        program.weigh_keys()
        self._weights: dict[str, NDArray[np.float64]] = {}
        self._uneven: dict[str, int] = {}

    def __call__(self, profile: Profile) -> None:
        """Look at the work of a batch's key groups."""
        for region in profile.groups:
            have, work = self._weights.get(region), profile.weights(region)
            work = work / max(work.sum(), 1e-12)
            mixed = work if have is None else self._past * have + (1 - self._past) * work
            self._weights[region] = mixed
            plan = self._program.plan.regions[region]
            uneven = plan.replicas > 1 and is_uneven(plan.routing, mixed.tolist(), plan.replicas)
            self._uneven[region] = self._uneven.get(region, 0) + 1 if uneven else 0
            if self._uneven[region] >= self._patience:
                self._uneven[region] = 0
                better = rebalance(plan.routing, mixed.tolist(), plan.replicas)
                if better != plan.routing and self._program.wanted == self._program.plan:
                    self._program.change(routing={region: better})
