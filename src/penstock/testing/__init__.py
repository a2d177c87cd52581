"""Contract suites and fakes, part of the product so that users can test their own policies and plants."""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.testing.forecaster_suite import check_forecaster
from penstock.testing.plant_suite import check_plant
from penstock.testing.policy_suite import check_policy
from penstock.testing.recording import RecordingActuator
from penstock.testing.scripted import ScriptedPlant

__all__ = [
    "check_policy", "check_plant", "check_preference", "check_forecaster",
    "RecordingActuator", "ScriptedPlant",
]  # fmt: skip

if TYPE_CHECKING:
    from penstock.testing.preference_suite import check_preference as check_preference
else:

    def __getattr__(name):
        if name != "check_preference":  # it needs compiled kernels, so it loads on first use
            raise AttributeError(f"module 'penstock.testing' has no attribute '{name}'")
        return import_module("penstock.testing.preference_suite").check_preference
