import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.models import MAP, Mmpp2, fit_map2, kpc
from penstock.models.map_counts import sample_counts, slot_moments


@pytest.mark.parametrize("slot", [0.5, 80.0], ids=["walked", "drawn"])
@pytest.mark.parametrize(
    "process",
    [
        Mmpp2((3.0, 0.2), (0.4, 0.1)),
        fit_map2(1.0, dispersion=20.0),
        kpc(*[fit_map2(1.0, dispersion=3.0)] * 3),
    ],
)
def test_counts_have_the_dispersion_of_the_process_at_every_scale(process: MAP, slot: float) -> None:
    counts = sample_counts(process, slot, 60_000, np.random.default_rng(0))
    assert counts.mean() == pytest.approx(process.rate * slot, rel=0.05)
    for group in (1, 10):
        summed = counts.reshape(-1, group).sum(axis=1)
        expected = process.dispersion_at(slot * group)[0]
        assert summed.var() / summed.mean() == pytest.approx(expected, rel=0.15)


def test_the_moments_of_a_slot_add_up_to_those_of_the_process() -> None:
    process = fit_map2(1.0, dispersion=50.0)
    moves, mean, variance = slot_moments(process, 40.0)
    weight = process.phase[:, None] * moves
    total = float((weight * mean).sum())
    assert total == pytest.approx(40.0)
    second = float((weight * (variance + mean**2)).sum())
    assert (second - total**2) / total == pytest.approx(process.dispersion_at(40.0)[0], rel=1e-8)


def test_impossible_slots_are_refused() -> None:
    with pytest.raises(PenstockError):
        sample_counts(fit_map2(1.0, dispersion=2.0), 0.0, 10, np.random.default_rng(0))
