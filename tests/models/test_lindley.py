import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.models.lindley import simulate_queue


def _by_events(gaps: np.ndarray, services: np.ndarray, servers: int) -> list[float]:
    free = [0.0] * servers
    responses, now = [], 0.0
    for gap, service in zip(gaps, services, strict=True):
        now += gap
        start = max(now, heapq.heappop(free))
        heapq.heappush(free, start + service)
        responses.append(start + service - now)
    return responses


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 60))
def test_it_agrees_with_an_event_by_event_simulation(seed: int, servers: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    gaps, services = rng.exponential(1.0, n), rng.exponential(0.9 * servers, n)
    np.testing.assert_allclose(
        simulate_queue(gaps, services, servers), _by_events(gaps, services, servers), atol=1e-9
    )


def test_simultaneous_arrivals_wait_for_one_another() -> None:
    assert simulate_queue([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]).tolist() == [1.0, 2.0, 3.0]


def test_mismatched_input_is_refused() -> None:
    with pytest.raises(PenstockError):
        simulate_queue([1.0], [1.0, 2.0])
    with pytest.raises(PenstockError):
        simulate_queue([1.0], [1.0], servers=0)
