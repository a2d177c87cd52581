"""Independent random streams by name, so that any part of a stream can be drawn again without drawing the rest."""

from dataclasses import dataclass

import numpy as np

from penstock.core.errors import PenstockError


@dataclass(frozen=True)
class Seeds:
    """A tree of seeds: a number, and the path from the root to this branch.

    >>> Seeds(1).child(0).rng(7).random() == Seeds(1).child(0).rng(7).random()
    True
    >>> Seeds(1).child(0).rng(7).random() == Seeds(1).child(1).rng(7).random()
    False
    """

    seed: int
    path: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise PenstockError(f"A seed of {self.seed} is impossible; give a whole number of zero or more.")

    def child(self, branch: int) -> "Seeds":
        """The branch with this number."""
        # The 1 keeps the path of a branch apart from the path of a generator (0 in `rng`).
        return Seeds(self.seed, (*self.path, 1, branch))

    def rng(self, *index: int) -> np.random.Generator:
        """The generator with this number; the same one each time it is asked for."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(*self.path, 0, *index))
        return np.random.Generator(np.random.PCG64(sequence))
