"""Contract suites and fakes, part of the product so that users can test their own policies and plants."""

from penstock.testing.equality import same
from penstock.testing.forecaster import check_forecaster
from penstock.testing.plant import check_plant
from penstock.testing.policy import check_policy, example_observations
from penstock.testing.recording import RecordingActuator
from penstock.testing.scripted import ScriptedPlant

__all__ = [
    "RecordingActuator",
    "ScriptedPlant",
    "check_forecaster",
    "check_plant",
    "check_policy",
    "example_observations",
    "same",
]
