"""What a probe finds out about one actuator on this machine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProbeResult:
    """Whether an actuator works here, what was tried, and how to get it where it does not."""

    name: str
    works: bool
    #: What was tried and seen, or why it cannot work, in one sentence.
    found: str
    #: What to do to get it; empty where it works.
    how: str = ""
    #: Whether it was not found out in time, which says nothing about whether it works.
    unknown: bool = False

    def as_dict(self) -> dict[str, object]:
        """Plain values for ``--json``."""
        return {
            "name": self.name,
            "works": self.works,
            "found": self.found,
            "how": self.how,
            "unknown": self.unknown,
        }
