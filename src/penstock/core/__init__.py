"""Contracts of the control loop: observations, decisions, policies, plants, guards, journal.

The names load on first use: ``penstock --help`` and every error need this package, and none of them numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "Observation", "StageObservation", "Capacity", "Metric", "Knob", "Change", "Decision",
    "Controller", "Guards", "Bound", "RollbackRule", "FileJournal",
]  # fmt: skip

if TYPE_CHECKING:
    from penstock.core.capacity import Capacity, Knob
    from penstock.core.controller import Controller
    from penstock.core.decision import Change, Decision
    from penstock.core.guards import Bound, Guards
    from penstock.core.journal import FileJournal
    from penstock.core.journal import Journal as Journal
    from penstock.core.metrics import Metric
    from penstock.core.observation import Observation, StageObservation
    from penstock.core.plant import Plant as Plant
    from penstock.core.policy import Policy as Policy
    from penstock.core.rollback import RollbackRule
else:  # a __getattr__ that type checkers see would make every misspelt name an Any
    #: Public name -> the module that has it.
    _HOMES = {
        **dict.fromkeys(("Capacity", "Knob"), "capacity"),
        "Controller": "controller",
        **dict.fromkeys(("Change", "Decision"), "decision"),
        **dict.fromkeys(("Bound", "Guards"), "guards"),
        **dict.fromkeys(("FileJournal", "Journal"), "journal"),
        "Metric": "metrics",
        **dict.fromkeys(("Observation", "StageObservation"), "observation"),
        "Plant": "plant",
        "Policy": "policy",
        "RollbackRule": "rollback",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'penstock.core' has no attribute '{name}'")
        value = getattr(import_module(f"penstock.core.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted(__all__)
