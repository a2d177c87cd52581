"""Dynamic power of a set of cores: cores x frequency x voltage^2, up to a constant (MPC Expr. 9)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from penstock.core.errors import PenstockError

#: Volts at each frequency in GHz: the range of a server CPU of the papers' time; give your own from its data sheet.
DEFAULT_VOLTAGES: Mapping[float, float] = MappingProxyType(
    {1.2: 0.82, 1.3: 0.84, 1.4: 0.86, 1.5: 0.88, 1.6: 0.90, 1.7: 0.92, 1.8: 0.94, 1.9: 0.96, 2.0: 0.98}
)


@dataclass(frozen=True)
class PowerModel:
    """Proportional to what the chip draws for switching; constant parts are left out, as choices do not change them.

    ``watts_per_unit`` turns cores x GHz x V^2 into watts where it is known.

    >>> model = PowerModel()
    >>> round(model.power(cores=4, frequency=2.0) / model.power(cores=4, frequency=1.2), 2)
    2.38
    """

    voltages: Mapping[float, float] = field(default_factory=lambda: DEFAULT_VOLTAGES)
    watts_per_unit: float = 1.0

    def __post_init__(self) -> None:
        if not self.voltages or any(f <= 0.0 or v <= 0.0 for f, v in self.voltages.items()):
            raise PenstockError("A voltage table holds frequencies in GHz and volts, all above zero.")
        if not self.watts_per_unit > 0.0:
            raise PenstockError(f"The watts per unit are above zero, not {self.watts_per_unit}.")

    @property
    def frequencies(self) -> tuple[float, ...]:
        """The frequencies of the table, rising."""
        return tuple(sorted(self.voltages))

    def voltage(self, frequency: float) -> float:
        """Volts at this frequency, between the table's entries by a straight line."""
        steps = self.frequencies
        if not steps[0] - 1e-9 <= frequency <= steps[-1] + 1e-9:
            raise PenstockError(
                f"{frequency} GHz is outside the voltage table ({steps[0]} to {steps[-1]} GHz); extend the table."
            )
        return float(np.interp(frequency, steps, [self.voltages[f] for f in steps]))

    def power(self, cores: float, frequency: float) -> float:
        """Dynamic power of ``cores`` busy cores at ``frequency`` GHz."""
        if cores < 0.0:
            raise PenstockError(f"A number of cores is zero or more, not {cores}.")
        return self.watts_per_unit * cores * frequency * self.voltage(frequency) ** 2

    def energy(self, cores: float, frequency: float, seconds: float) -> float:
        """Power over a time, in joules where ``watts_per_unit`` is given."""
        return self.power(cores, frequency) * seconds
