"""What policies that stand around another one have in common."""

from dataclasses import dataclass
from typing import Any

from penstock.core.policy import AnyPolicy


@dataclass(frozen=True, slots=True)
class Around:
    """Has the name and the first state of the policy inside."""

    policy: AnyPolicy

    @property
    def name(self) -> str:
        """The name of the policy inside."""
        return self.policy.name

    def start(self) -> Any:
        """The state that the policy inside starts with."""
        return self.policy.start()
