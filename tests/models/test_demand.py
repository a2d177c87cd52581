import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.models import Erlang
from penstock.models.demand import DemandEstimator


def test_the_confidence_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng, inside = np.random.default_rng(0), 0
    for _ in range(200):
        estimator = DemandEstimator(["a"], forgetting=1.0)
        for n in rng.poisson(50, 30):
            estimator.observe(Erlang(2, 0.01).sample(int(n), rng).sum(), {"a": n})
        demand = estimator.demands()["a"]
        inside += demand.low <= 0.01 <= demand.high
    assert 0.91 < inside / 200 < 0.985


def test_operators_that_share_a_process_are_told_apart_by_their_mix() -> None:
    rng, estimator = np.random.default_rng(1), DemandEstimator(["parse", "match"], forgetting=1.0)
    for _ in range(200):
        parse, match = rng.poisson(100), rng.poisson(rng.uniform(5, 80))
        busy = Erlang(2, 0.001).sample(int(parse), rng).sum() + Erlang(2, 0.02).sample(int(match), rng).sum()
        estimator.observe(busy, {"parse": parse, "match": match})
    demands = estimator.demands()
    assert demands["match"].mean == pytest.approx(0.02, rel=0.05)
    assert demands["match"].known
    assert demands["parse"].low <= 0.001 <= demands["parse"].high


def test_operators_that_always_move_together_are_not_known_apart() -> None:
    rng, estimator = np.random.default_rng(1), DemandEstimator(["a", "b"])
    for n in rng.poisson(100, 50):
        estimator.observe(0.03 * n + 0.01 * rng.standard_normal() ** 2, {"a": n, "b": n})
    assert not any(demand.known for demand in estimator.demands().values())


def test_a_change_of_demand_is_followed() -> None:
    estimator = DemandEstimator(["a"], forgetting=0.9)
    for step in range(200):
        estimator.observe(100 * (0.01 if step < 100 else 0.03), {"a": 100})
    assert estimator.demands()["a"].mean == pytest.approx(0.03, rel=0.01)
    assert estimator.utilisation({"a": 20.0}) == pytest.approx(0.6, rel=0.01)


def test_arrivals_stand_in_for_missing_completions_and_idle_intervals_tell_nothing() -> None:
    estimator = DemandEstimator(["a"])
    assert estimator.demands()["a"].high == float("inf")
    estimator.observe(0.0, {})
    assert estimator.demands()["a"].intervals == 0.0
    estimator.observe(0.5, {}, arrivals={"a": 100})
    assert estimator.demands()["a"].mean == pytest.approx(0.005)
    assert not estimator.demands()["a"].known


def test_impossible_reports_are_refused() -> None:
    with pytest.raises(PenstockError):
        DemandEstimator([])
    with pytest.raises(PenstockError):
        DemandEstimator(["a"], forgetting=0.0)
    with pytest.raises(PenstockError):
        DemandEstimator(["a"]).observe(-1.0, {"a": 1})
    with pytest.raises(PenstockError):
        DemandEstimator(["a"]).observe(float("nan"), {"a": 1})
