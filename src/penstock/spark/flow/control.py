"""Policies at work on a flow: placeholder until the loop is wired."""

from typing import Any

from penstock.core.guards import Guards
from penstock.core.journal import Journal
from penstock.core.policy import AnyPolicy


def control(
    run: Any,
    program: Any,
    policy: AnyPolicy | None,
    guards: Guards | None,
    journal: Journal,
    period: float,
    dry_run: bool,
) -> None:
    """Nothing yet."""
