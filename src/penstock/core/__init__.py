"""Contracts of the control loop: observations, decisions, policies, plants, guards, journal.

The names load on first use: ``penstock --help`` and every error need this package, and none of them numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.core.deprecation import moved

__all__ = [
    "Observation", "Knob", "Change", "Decision",
    "Controller", "Guards", "Bound", "RollbackRule",
]  # fmt: skip

if TYPE_CHECKING:
    from penstock.core.capacity import Knob
    from penstock.core.controller import Controller
    from penstock.core.decision import Change, Decision
    from penstock.core.guards import Bound, Guards
    from penstock.core.observation import Observation
    from penstock.core.rollback import RollbackRule
else:  # a __getattr__ that type checkers see would make every misspelt name an Any
    #: Public name -> the module that has it.
    _HOMES = {
        "Knob": "capacity",
        "Controller": "controller",
        **dict.fromkeys(("Change", "Decision"), "decision"),
        **dict.fromkeys(("Bound", "Guards"), "guards"),
        "Observation": "observation",
        "RollbackRule": "rollback",
    }

    _moved = moved(
        "penstock.core",
        {
            "Capacity": "capacity",
            "FileJournal": "journal",
            "Journal": "journal",
            "Metric": "metrics",
            "Plant": "plant",
            "Policy": "policy",
            "StageObservation": "observation",
        },
    )

    def __getattr__(name):
        if name not in _HOMES:
            return _moved(name)
        value = getattr(import_module(f"penstock.core.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted(__all__)
