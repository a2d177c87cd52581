"""MAP/PH/1 against a solver that shares nothing with it: the level-by-level Markov chain, eliminated from a high
level down, and the response time from uniformising the service of the tuples found on arrival."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.models import MAP, Erlang, MapPh1, Mg1, Poisson, fit_map2, kpc
from penstock.models.lindley import simulate_queue
from penstock.models.phase_type import PH, Exponential, HyperExponential
from penstock.models.queue import TwoMoments

slow = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def levels_by_elimination(arrivals: MAP, service: PH, levels: int) -> list[np.ndarray]:
    """Stationary probabilities of (number present, phases), the chain cut at ``levels``."""
    a, s = np.eye(arrivals.order), np.eye(service.order)
    up, down = np.kron(arrivals.D1, s), np.kron(a, np.outer(service.exit, service.alpha))
    stay = np.kron(arrivals.D0, s) + np.kron(a, service.T)
    into, out = np.kron(arrivals.D1, service.alpha[None, :]), np.kron(a, service.exit[:, None])
    block, ratios = stay + up, []
    for _ in range(levels - 1):  # at the top, arrivals are lost; nobody is there to see it
        ratio = np.linalg.solve(-block.T, up.T).T
        ratios.append(ratio)
        block = stay + ratio @ down
    first = np.linalg.solve(-block.T, into.T).T
    system = np.hstack([(arrivals.D0 + first @ out)[:, 1:], np.ones((arrivals.order, 1))])
    empty = np.linalg.lstsq(system.T, np.eye(arrivals.order)[-1], rcond=None)[0]
    found = [empty, empty @ first]
    for ratio in reversed(ratios):
        found.append(found[-1] @ ratio)
    total = sum(float(level.sum()) for level in found)
    return [level / total for level in found]


def response_survival(arrivals: MAP, service: PH, found: list[np.ndarray], t: float) -> float:
    """P(response > t): after an arrival n tuples are present; count service completions by uniformisation."""
    n_s = service.order
    present = np.zeros((len(found) + 1, n_s))
    present[1] = (found[0] @ arrivals.D1).sum() * service.alpha
    for level, vector in enumerate(found[1:], start=1):
        present[level + 1] = (vector.reshape(arrivals.order, n_s).T @ arrivals.D1.sum(axis=1)) / 1.0
    present /= present.sum()
    q = float(np.max(-np.diag(service.T)))
    stay, done = np.eye(n_s) + service.T / q, service.exit / q
    answer = 0.0
    for k in range(int(q * t + 10 * np.sqrt(q * t) + 40)):
        answer += scipy.stats.poisson.pmf(k, q * t) * float(present[1:].sum())
        moved = present @ stay
        moved[:-1] += np.outer(present[1:] @ done, service.alpha)
        moved[0] = 0.0
        present = moved
    return answer


def agrees(arrivals: MAP, service: PH, levels: int) -> None:
    queue = MapPh1(arrivals, service)
    found = levels_by_elimination(arrivals, service, levels)
    assert float(found[-1].sum()) < 1e-12, "cut too low to be an oracle"
    present = sum(n * float(level.sum()) for n, level in enumerate(found))
    assert queue.mean_queue == pytest.approx(present, rel=1e-8)
    assert queue.mean_response == pytest.approx(present / arrivals.rate, rel=1e-8)
    assert queue.response.mean == pytest.approx(queue.mean_response, rel=1e-8)
    free = float((found[0] @ arrivals.D1).sum()) / arrivals.rate
    assert queue.no_wait == pytest.approx(free, rel=1e-8)
    for share in (0.5, 0.95):
        t = queue.percentile(share)
        tail = response_survival(arrivals, service, found, t)
        assert tail == pytest.approx(1.0 - share, rel=1e-8)


@slow
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3), st.floats(0.2, 0.85))
def test_random_queues_agree_with_the_independent_solver(
    random_map: Callable[[int, int], MAP],
    random_ph: Callable[[int, int, float], PH],
    seed: int,
    order: int,
    phases: int,
    load: float,
) -> None:
    agrees(random_map(seed, order), random_ph(seed + 1, phases, load), 1500)


@pytest.mark.parametrize(
    ("arrivals", "levels"),
    [
        (fit_map2(1.0, scv=3.0, decay=-0.6), 400),
        (fit_map2(1.0, scv=0.6, decay=-0.05), 200),
        (fit_map2(1.0, scv=1.0001, decay=0.9), 300),
        (fit_map2(1.0, scv=40.0, skewness=60.0, decay=0.3), 4000),
        (fit_map2(1.0, dispersion=100.0), 6000),
        (MAP([[-1e6, 0.0], [0.0, -0.1]], [[0.95e6, 0.05e6], [0.05, 0.05]]).scaled(1.0), 4000),
        (kpc(*[fit_map2(1.0, dispersion=2.0)] * 4), 2500),
    ],
    ids=["negative", "regular", "near-exponential", "heavy", "bursty", "near-degenerate", "16 states"],
)
def test_hard_queues_agree_with_the_independent_solver(arrivals: MAP, levels: int) -> None:
    agrees(arrivals, Erlang(2, 0.6), levels)


def test_mm1_is_the_textbook_queue() -> None:
    queue = MapPh1(Poisson(0.8), Exponential(1.0))
    assert queue.mean_response == pytest.approx(5.0, rel=1e-12)
    assert queue.percentile(99) == pytest.approx(5.0 * np.log(100), rel=1e-10)
    assert queue.variance == pytest.approx(25.0, rel=1e-10)
    assert queue.no_wait == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize(
    "service", [Erlang(3, 0.7), HyperExponential([0.9, 0.1], [0.3, 4.3]), Exponential(0.7)]
)
def test_poisson_arrivals_give_pollaczek_khinchine(service: PH) -> None:
    assert MapPh1(Poisson(1.0), service).mean_wait == pytest.approx(Mg1(1.0, service).mean_wait, rel=1e-10)


def test_many_stages_approach_constant_service() -> None:
    constant = Mg1(0.7, TwoMoments(1.0, scv=0.0)).mean_wait
    gaps = [MapPh1(Poisson(0.7), Erlang(k, 1.0)).mean_wait / constant - 1.0 for k in (10, 40)]
    assert gaps == pytest.approx([0.1, 0.025], rel=1e-6)


def test_simulation_agrees() -> None:
    arrivals, service, rng = fit_map2(1.0, dispersion=10.0), Erlang(2, 0.7), np.random.default_rng(2)
    queue, n = MapPh1(arrivals, service), 2_000_000
    responses = simulate_queue(arrivals.sample(n, rng), service.sample(n, rng))
    assert responses.mean() == pytest.approx(queue.mean_response, rel=0.04)
    assert np.quantile(responses, 0.95) == pytest.approx(queue.percentile(95), rel=0.05)
    assert responses.var() == pytest.approx(queue.variance, rel=0.15)


def test_wait_and_response_laws_are_consistent() -> None:
    queue = MapPh1(fit_map2(1.0, dispersion=30.0), Erlang(2, 0.6))
    assert queue.no_wait + queue.wait.above_zero == pytest.approx(1.0, abs=1e-12)
    assert queue.wait_survival(0.0)[0] == pytest.approx(queue.wait.above_zero)
    x = np.array([0.1, 1.0, 10.0, 100.0])
    assert np.all(queue.wait_survival(x) <= queue.survival(x))
    summed = queue.wait.plus(queue.service)
    np.testing.assert_allclose(summed.survival(x), queue.survival(x), rtol=1e-8)


@pytest.mark.parametrize("load", [1.0, 1.5])
def test_an_overloaded_queue_is_infinite_not_an_error(load: float) -> None:
    queue = MapPh1(fit_map2(1.0, dispersion=10.0), Erlang(2, load))
    assert queue.utilisation == pytest.approx(load)
    figures = (queue.mean_response, queue.mean_wait, queue.mean_queue, queue.percentile(95), queue.variance)
    assert all(figure == float("inf") for figure in figures)
    assert queue.survival([1.0, 2.0]).tolist() == [1.0, 1.0]
    assert queue.no_wait == 0.0
    with pytest.raises(PenstockError, match="grows without end"):
        queue.response


def test_close_to_saturation_the_answer_stays_finite_and_right() -> None:
    queue = MapPh1(Poisson(1.0), Exponential(0.999999))
    assert queue.mean_response == pytest.approx(0.999999 / 1e-6, rel=1e-6)


def test_arguments_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(PenstockError, match="phase-type"):
        MapPh1(Poisson(1.0), TwoMoments(0.5))  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="needs a MAP"):
        MapPh1(TwoMoments(1.0), Exponential(0.5))  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="percentile"):
        MapPh1(Poisson(1.0), Exponential(0.5)).percentile(100)
