"""Every policy on every plant: whatever it makes of what it sees, the loop goes on and nothing fails."""

import pytest

from penstock.core.errors import PenstockError
from penstock.policies.catalog import CATALOG, policy_named
from penstock.policies.surroundings import PlantKind
from penstock.sim import load
from penstock.sim.closed_loop import run_policy
from penstock.sim.plant_catalog import PLANTS, plant_parameters, simulated_plant

#: A short load for each plant.
LOADS = {
    "spark": ("poisson:rate=400", 90.0),
    "operator": ("poisson:rate=1500", 20.0),
    "preference": ("poisson:rate=3000", 8.0),
    "network": ("map2:rate=300,dispersion=20", 120.0),
    "regions": ("steps:rate=300,factor=3", 60.0),
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", CATALOG)
def test_every_policy_runs_on_every_plant(plant, name):
    kind = simulated_plant(plant)
    spec, seconds = LOADS[plant]
    made = load(spec, seconds, 1)
    simulated = kind.make(made, kind.parameters, 1)
    here = kind.surroundings(kind.parameters)
    if name == "Autopilot" and here.kind is not PlantKind.MICRO_BATCHES:
        with pytest.raises(PenstockError, match="executors"):  # it says so rather than do nothing
            policy_named(name, here)
        return
    chosen = policy_named(name, here)
    outcome = run_policy(simulated, chosen, kind.period, seconds, target=kind.target)
    failed = [w for w in outcome.warnings if "failed" in w or "could not" in w]
    assert not failed
    assert outcome.quality.observations == int(seconds / kind.period + 1e-9)
    assert outcome.core_seconds > 0


@pytest.mark.parametrize("plant", PLANTS)
def test_a_run_is_the_same_every_time(plant):
    kind = simulated_plant(plant)
    spec, seconds = LOADS[plant]
    rows = []
    for _ in range(2):
        simulated = kind.make(load(spec, seconds / 2, 3), kind.parameters, 3)
        chosen = policy_named(
            "Threshold" if plant != "regions" else "Organic", kind.surroundings(kind.parameters)
        )
        rows.append(run_policy(simulated, chosen, kind.period, seconds / 2).row())
    assert str(rows[0]) == str(rows[1])


def test_names_and_values_are_checked():
    with pytest.raises(PenstockError, match="moon"):
        simulated_plant("moon")
    with pytest.raises(PenstockError, match="row_cots"):
        plant_parameters(PLANTS["spark"], ["row_cots=1"])
    with pytest.raises(PenstockError, match="no number"):
        plant_parameters(PLANTS["spark"], ["row_cost=cheap"])
    assert plant_parameters(PLANTS["spark"], ["row_cost=0.5"])["row_cost"] == 0.5
