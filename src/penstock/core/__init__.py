"""Contracts of the control loop: observations, decisions, policies, plants, guards, journal."""

from penstock.core.capacity import Capacity, Knob
from penstock.core.controller import Controller
from penstock.core.decision import Change, Decision
from penstock.core.guards import Bound, Guards
from penstock.core.journal import FileJournal, Journal
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.core.plant import Plant
from penstock.core.policy import Policy
from penstock.core.rollback import RollbackRule

__all__ = [
    "Observation", "StageObservation", "Capacity", "Metric",
    "Knob", "Change", "Decision", "Policy", "Plant",
    "Controller", "Guards", "Bound", "RollbackRule", "Journal", "FileJournal",
]  # fmt: skip
