"""Power of the simulated cores: the model of :mod:`penstock.models.power`, scaled to a measured machine."""

from penstock.models.power import DEFAULT_VOLTAGES, PowerModel

_TOP = max(DEFAULT_VOLTAGES)

#: Twelve cores at the highest frequency draw 68.25 W (MPC 5.3.2).
MACHINE = PowerModel(watts_per_unit=68.25 / (12 * _TOP * DEFAULT_VOLTAGES[_TOP] ** 2))


def watts(cores: float, frequency: float) -> float:
    """Dynamic power of so many busy cores.

    >>> round(watts(12, 2.0), 2)
    68.25
    """
    return MACHINE.power(cores, frequency)
