import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.models import Erlang, Poisson
from penstock.models.network import Application, Edge, Station
from penstock.models.network_simulate import simulate_network
from penstock.models.phase_type import Exponential


def test_a_single_station_is_an_mm1_queue() -> None:
    app = Application([Station("a", Exponential(0.5))], [], {"a": Poisson(1.0)})
    simulated = simulate_network(app, 400_000, np.random.default_rng(0))
    assert simulated.stations["a"].mean() == pytest.approx(1.0, rel=0.03)
    np.testing.assert_allclose(simulated.sinks["a"], simulated.stations["a"], atol=1e-6)


def test_a_join_waits_for_the_last_copy() -> None:
    app = Application(
        [Station("f", Erlang(2, 1e-6)), Station("a", Erlang(2, 0.1)), Station("b", Erlang(2, 0.1)), Station("j", Erlang(2, 1e-6), join=True)],
        [Edge("f", "a"), Edge("f", "b"), Edge("a", "j"), Edge("b", "j")],
        {"f": Poisson(0.01)},
    )  # fmt: skip
    simulated = simulate_network(app, 50_000, np.random.default_rng(0))
    # E[max of two Erlang-2 of mean 0.1] = 0.1 x 11/8
    assert simulated.sinks["j"].mean() == pytest.approx(0.1375, rel=0.02)


def test_selectivity_multiplies_and_fractions_divide_the_stream() -> None:
    app = Application(
        [
            Station("a", Erlang(2, 0.1), selectivity=2.5),
            Station("b", Erlang(2, 0.01)),
            Station("c", Erlang(2, 0.01)),
        ],
        [Edge("a", "b", 0.3), Edge("a", "c", 0.7)],
        {"a": Poisson(1.0)},
    )
    simulated = simulate_network(app, 40_000, np.random.default_rng(0))
    assert simulated.stations["b"].size == pytest.approx(30_000, rel=0.03)
    assert simulated.stations["c"].size == pytest.approx(70_000, rel=0.03)
    with pytest.raises(PenstockError):
        simulate_network(app, 0, np.random.default_rng(0))
