import numpy as np
import pytest

from penstock.models import MapPh1, Poisson, fit_map2
from penstock.models.comparison import compare_loads
from penstock.models.phase_type import Erlang


def test_on_poisson_traffic_all_models_agree_with_the_simulation() -> None:
    gaps = Poisson(10.0).sample(100_000, np.random.default_rng(0))
    for row in compare_loads(gaps, [Poisson(1.0)], [0.5, 0.7]):
        assert row.mg1_mean == pytest.approx(row.simulated_mean, rel=0.05)
        assert row.kingman_mean == pytest.approx(row.simulated_mean, rel=0.05)
        assert row.map_mean[0] == pytest.approx(row.mg1_mean)
        assert row.map_p95[0] == pytest.approx(row.simulated_p95, rel=0.06)


def test_the_worst_model_is_the_one_furthest_off_in_either_direction() -> None:
    process = fit_map2(0.1, dispersion=20.0)
    gaps = process.sample(100_000, np.random.default_rng(0))
    (row,) = compare_loads(gaps, [process, Poisson(1.0)], [0.7], percentiles=False)
    assert row.map_worst == row.map_mean[1]
    assert row.map_mean[0] == pytest.approx(
        MapPh1(process.scaled(1 / gaps.mean()), Erlang(2, 0.7 * gaps.mean())).mean_response
    )
