"""Contracts of the control loop: observations, decisions, policies, plants, guards, journal."""

from penstock.core.capacity import Capacity, Knob, KnobValue
from penstock.core.controller import Controller, ControllerState, Step
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.guards import Bound, Guards
from penstock.core.journal import FileJournal, Journal, MemoryJournal
from penstock.core.metrics import Metric
from penstock.core.observation import (
    KeyLoad,
    LastChange,
    Latency,
    Observation,
    OperatorObservation,
    RegionObservation,
    StageObservation,
)
from penstock.core.plant import Applied, Clock, Plant
from penstock.core.policy import Policy
from penstock.core.rollback import RollbackRule

__all__ = [
    "Observation", "StageObservation", "RegionObservation", "OperatorObservation",
    "KeyLoad", "LastChange", "Latency", "Metric",
    "Capacity", "Knob", "KnobValue", "Change", "Decision",
    "Policy", "Plant", "Applied", "Clock",
    "Controller", "ControllerState", "Step", "Guards", "Bound", "RollbackRule",
    "Journal", "FileJournal", "MemoryJournal",
    "PenstockError",
]  # fmt: skip
