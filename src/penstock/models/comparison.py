"""Predicted against simulated: the models of a trace next to what a queue does with the trace itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.models.kingman import Kingman
from penstock.models.lindley import simulate_queue
from penstock.models.map import MAP
from penstock.models.map_ph1 import MapPh1
from penstock.models.mg1 import Mg1
from penstock.models.phase_type import PH, Erlang
from penstock.models.queue import TwoMoments

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LoadComparison:
    """Mean and 95th percentile of the response at one utilisation, in seconds.

    ``map_mean`` and ``map_p95`` hold one value per fitted MAP, best first. Kingman has no percentile.
    """

    utilisation: float
    simulated_mean: float
    simulated_p95: float
    mg1_mean: float
    mg1_p95: float
    kingman_mean: float
    map_mean: tuple[float, ...]
    map_p95: tuple[float, ...]

    @property
    def map_worst(self) -> float:
        """The mean of the fitted MAP that is furthest off."""
        return max(self.map_mean, key=lambda mean: abs(np.log(mean / self.simulated_mean)))


def compare_loads(
    gaps: Floats,
    models: Sequence[MAP],
    utilisations: Sequence[float],
    service: PH | None = None,
    runs: int = 5,
    seed: int = 0,
    percentiles: bool = True,
) -> list[LoadComparison]:
    """The trace through a queue (``runs`` draws of the service times) and through each model of it.

    ``service`` gives the shape, Erlang-2 by default as in MEAD; its mean is set by the utilisation.
    """
    shape = service or Erlang(2, 1.0)
    mean = float(gaps.mean())
    scv = float(gaps.var()) / mean**2
    rng = np.random.default_rng(seed)
    rows = []
    for load in utilisations:
        law = shape.scaled(load * mean)
        responses = np.concatenate([simulate_queue(gaps, law.sample(gaps.size, rng)) for _ in range(runs)])
        poisson = Mg1(1.0 / mean, law)
        queues = [MapPh1(model.scaled(1.0 / mean), law) for model in models]
        rows.append(
            LoadComparison(
                utilisation=load,
                simulated_mean=float(responses.mean()),
                simulated_p95=float(np.quantile(responses, 0.95)),
                mg1_mean=poisson.mean_response,
                mg1_p95=poisson.percentile(0.95) if percentiles else 0.0,
                kingman_mean=Kingman(TwoMoments(mean, scv), law).mean_response,
                map_mean=tuple(queue.mean_response for queue in queues),
                map_p95=tuple(queue.percentile(0.95) for queue in queues[:1]) if percentiles else (),
            )
        )
    return rows
