import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.models import Erlang, Kingman, MapPh1, Poisson, fit_map2
from penstock.models.ggn import GGn
from penstock.models.lindley import simulate_queue
from penstock.models.phase_type import Exponential
from penstock.models.queue import TwoMoments


def test_mmn_is_exact() -> None:
    queue = GGn(3.2, Exponential(1.0), servers=4)  # Erlang C: P(wait) = 0.596430
    assert queue.mean_wait == pytest.approx(0.59643 / (4 - 3.2), rel=1e-5)


def test_one_server_is_the_single_server_queue() -> None:
    arrivals, service = fit_map2(1.0, dispersion=20.0), Erlang(2, 0.7)
    assert GGn(arrivals, service).mean_wait == pytest.approx(MapPh1(arrivals, service).mean_wait)
    assert GGn(arrivals, service).percentile(95) == pytest.approx(MapPh1(arrivals, service).percentile(95))
    two = TwoMoments(1.0, 3.0)
    assert GGn(two, service).mean_wait == pytest.approx(Kingman(two, service).mean_wait)


@pytest.mark.parametrize("servers", [2, 4, 8])
def test_bursts_on_a_shared_line_are_within_a_tenth_of_simulation(servers: int) -> None:
    arrivals, service, n = fit_map2(1.0, dispersion=10.0), Erlang(2, 0.8 * servers), 1_000_000
    rng = np.random.default_rng(servers)
    responses = simulate_queue(arrivals.sample(n, rng), service.sample(n, rng), servers)
    queue = GGn(arrivals, service, servers=servers)
    assert queue.mean_response == pytest.approx(responses.mean(), rel=0.1)
    assert queue.percentile(95) == pytest.approx(np.quantile(responses, 0.95), rel=0.1)


def test_random_routing_thins_the_stream_exactly() -> None:
    arrivals, service, rng = fit_map2(1.0, dispersion=30.0), Erlang(2, 3.0), np.random.default_rng(1)
    queue = GGn(arrivals, service, servers=4, routing="random")
    times = np.cumsum(arrivals.sample(2_000_000, rng))
    one = np.diff(times[rng.integers(0, 4, times.size) == 0])
    assert queue.mean_response == pytest.approx(
        simulate_queue(one, service.sample(one.size, rng)).mean(), rel=0.08
    )


def test_overload_and_impossible_requests() -> None:
    assert GGn(5.0, Exponential(1.0), servers=4).mean_response == float("inf")
    with pytest.raises(PenstockError, match="MAP arrivals only"):
        GGn(TwoMoments(1.0, 2.0), Exponential(0.5), servers=2).percentile(95)
    with pytest.raises(PenstockError, match="whole number"):
        GGn(Poisson(1.0), Exponential(0.5), servers=0)
    with pytest.raises(PenstockError, match="neither"):
        GGn(Poisson(1.0), Exponential(0.5), servers=2, routing="magic")  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="needs a MAP"):
        GGn(TwoMoments(1.0, 2.0), Exponential(0.5), servers=2, routing="random")
