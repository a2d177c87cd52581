"""Contract suites and fakes, part of the product so that users can test their own policies and plants."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.testing.equality import same
from penstock.testing.forecaster_suite import check_forecaster
from penstock.testing.plant_suite import check_plant
from penstock.testing.policy_suite import check_policy, example_observations
from penstock.testing.recording import RecordingActuator
from penstock.testing.scripted import ScriptedPlant

if TYPE_CHECKING:
    from penstock.testing.preference_suite import check_preference

__all__ = [
    "RecordingActuator",
    "ScriptedPlant",
    "check_forecaster",
    "check_plant",
    "check_policy",
    "check_preference",
    "example_observations",
    "same",
]

#: Suites that need compiled kernels load on first use.
_LATER = {"check_preference": "penstock.testing.preference_suite"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'penstock.testing' has no attribute '{name}'")
    return getattr(import_module(_LATER[name]), name)
