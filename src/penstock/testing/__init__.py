"""Contract suites and fakes, part of the product so that users can test their own policies and plants."""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.core.deprecation import moved
from penstock.testing.plant_suite import check_plant
from penstock.testing.policy_suite import check_policy
from penstock.testing.scripted import ScriptedPlant

__all__ = ["check_policy", "check_plant", "check_preference", "ScriptedPlant"]

if TYPE_CHECKING:
    from penstock.testing.preference_suite import check_preference as check_preference
else:
    _moved = moved(
        "penstock.testing", {"check_forecaster": "forecaster_suite", "RecordingActuator": "recording"}
    )

    def __getattr__(name):
        if name == "check_preference":  # it needs compiled kernels, so it loads on first use
            return import_module("penstock.testing.preference_suite").check_preference
        return _moved(name)
