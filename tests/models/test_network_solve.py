"""The decomposition against tuple-by-tuple simulation; the tolerances are the errors that docs/models.md states."""

from itertools import pairwise

import numpy as np
import pytest

from penstock.models import MAP, Erlang, MapPh1, Poisson, fit_map2
from penstock.models.network import Application, Edge, Station
from penstock.models.network_simulate import simulate_network
from penstock.models.network_solve import solve_network
from penstock.models.phase_type import Exponential

ARRIVALS = {"poisson": Poisson(1.0), "bursty": fit_map2(1.0, dispersion=10.0)}


def _line(arrivals: MAP, *means: float) -> Application:
    names = [f"s{i}" for i in range(len(means))]
    stations = [Station(name, Erlang(2, mean)) for name, mean in zip(names, means, strict=True)]
    return Application(stations, [Edge(a, b) for a, b in pairwise(names)], {"s0": arrivals})


def _compare(app: Application, mean: float, p95: float) -> None:
    solved, simulated = solve_network(app), simulate_network(app, 400_000, np.random.default_rng(1))
    for path, response in solved.paths.items():
        times = simulated.sinks[path[-1]]
        assert response.mean == pytest.approx(times.mean(), rel=mean)
        assert response.percentile(95) == pytest.approx(np.quantile(times, 0.95), rel=p95)


@pytest.mark.parametrize("arrivals", ARRIVALS.values(), ids=ARRIVALS.keys())
@pytest.mark.parametrize("loads", [(0.3, 0.5, 0.8), (0.8, 0.5, 0.3), (0.5, 0.8, 0.6)])
def test_lines_are_within_a_tenth(arrivals: MAP, loads: tuple[float, ...]) -> None:
    _compare(_line(arrivals, *loads), mean=0.1, p95=0.12)


@pytest.mark.parametrize("arrivals", ARRIVALS.values(), ids=ARRIVALS.keys())
def test_fork_and_join_is_within_a_tenth(arrivals: MAP) -> None:
    stations = [
        Station("parse", Erlang(2, 0.3)),
        Station("count", Erlang(2, 0.6)),
        Station("match", Erlang(2, 0.7)),
        Station("merge", Erlang(2, 0.2), join=True),
    ]
    edges = [Edge("parse", "count"), Edge("parse", "match"), Edge("count", "merge"), Edge("match", "merge")]
    _compare(Application(stations, edges, {"parse": arrivals}), mean=0.1, p95=0.12)


@pytest.mark.parametrize("selectivity", [0.4, 3.0])
@pytest.mark.parametrize("arrivals", ARRIVALS.values(), ids=ARRIVALS.keys())
def test_filters_and_flat_maps_are_within_a_tenth(arrivals: MAP, selectivity: float) -> None:
    stations = [
        Station("in", Erlang(2, 0.3), selectivity=selectivity),
        Station("out", Erlang(2, 0.7 / selectivity)),
    ]
    _compare(Application(stations, [Edge("in", "out")], {"in": arrivals}), mean=0.1, p95=0.12)


def test_the_first_station_is_exact_and_exponential_lines_are_too() -> None:
    arrivals = fit_map2(1.0, dispersion=50.0)
    solved = solve_network(_line(arrivals, 0.6, 0.3))
    assert solved.station_means["s0"] == pytest.approx(MapPh1(arrivals, Erlang(2, 0.6)).mean_response)
    app = Application(
        [Station("a", Exponential(0.5)), Station("b", Exponential(0.8))],
        [Edge("a", "b")],
        {"a": Poisson(1.0)},
    )
    assert solve_network(app).paths["a", "b"].mean == pytest.approx(1.0 + 4.0)


def test_several_sources_add_up_at_a_station() -> None:
    app = Application(
        [Station("a", Exponential(0.3)), Station("b", Exponential(0.3)), Station("c", Exponential(0.4))],
        [Edge("a", "c"), Edge("b", "c")],
        {"a": Poisson(1.0), "b": Poisson(1.0)},
    )
    solved = solve_network(app)
    assert solved.loads["c"].queue.utilisation == pytest.approx(0.8)
    assert solved.station_means["c"] == pytest.approx(2.0, rel=1e-6)


def test_an_overloaded_station_makes_its_paths_infinite() -> None:
    solved = solve_network(_line(Poisson(1.0), 0.5, 1.2))
    assert not solved.stable
    assert solved.slowest.mean == float("inf")
    assert solved.slowest.percentile(95) == float("inf")
    assert solved.station_means["s0"] < float("inf")


def test_a_join_behind_a_queue_counts_what_its_branches_share_once() -> None:
    """Three equal queues, exponential all of them: Burke's theorem for the first, Nelson and Tantawi for the fork and join."""
    app = Application(
        [
            Station("parse", Exponential(0.5)),
            Station("count", Exponential(0.5)),
            Station("match", Exponential(0.5)),
            Station("merge", Exponential(1e-3), join=True),
        ],
        [Edge("parse", "count"), Edge("parse", "match"), Edge("count", "merge"), Edge("match", "merge")],
        {"parse": Poisson(1.0)},
    )
    assert solve_network(app).slowest.mean == pytest.approx(1.0 + (12 - 0.5) / 8 + 0.001, rel=0.05)


def test_paths_into_one_join_take_the_same_time() -> None:
    stations = [
        Station("parse", Exponential(0.5)),
        Station("count", Exponential(0.3)),
        Station("match", Exponential(0.8)),
        Station("merge", Exponential(1e-3), join=True),
    ]
    edges = [Edge("parse", "count"), Edge("parse", "match"), Edge("count", "merge"), Edge("match", "merge")]
    one, other = solve_network(Application(stations, edges, {"parse": Poisson(1.0)})).paths.values()
    assert one.mean == pytest.approx(other.mean, rel=1e-6)


def test_an_operator_that_passes_nothing_leaves_the_next_one_idle() -> None:
    stations = [Station("filter", Exponential(0.5), selectivity=0.0), Station("alarm", Exponential(0.1))]
    solved = solve_network(Application(stations, [Edge("filter", "alarm")], {"filter": Poisson(1.0)}))
    assert solved.station_means["filter"] == pytest.approx(1.0)
    assert solved.station_means["alarm"] == pytest.approx(0.1, rel=1e-3)
