"""A PID controller in discrete time, and its tuning by a relay experiment."""

from dataclasses import dataclass
from itertools import pairwise
from math import pi

from penstock.core.errors import PenstockError


@dataclass(frozen=True)
class PidState:
    """Memory of the controller: the sum of errors, and the measurement before."""

    total: float = 0.0
    last: float | None = None


@dataclass(frozen=True)
class Pid:
    """output = Kp e + Ki sum(e) - Kd (y - last y),  e = setpoint - y,  clamped to +-limit.

    The derivative is taken of the measurement y, so that a new set-point does not kick. Against windup the integral
    term alone never exceeds the limit, and an error that pushes a saturated output further is not added.

    >>> pid = Pid(kp=1.8, kd=2.0, setpoint=0.9, limit=0.3)
    >>> state, output = pid.step(PidState(), 0.8)
    >>> round(output, 3)
    0.18
    """

    kp: float
    ki: float = 0.0
    kd: float = 0.0
    setpoint: float = 0.0
    limit: float = float("inf")

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise PenstockError(f"The limit of a controller is {self.limit}; give a positive one.")

    def step(self, state: PidState, measured: float, held: int = 0) -> tuple[PidState, float]:
        """One sample. ``held`` is +1 or -1 where the actuator is at its upper or lower end already."""
        error = self.setpoint - measured
        slope = 0.0 if state.last is None else measured - state.last
        total = state.total + error
        if self.ki:
            total = _clamp(total, self.limit / abs(self.ki))
        wanted = self.kp * error + self.ki * total - self.kd * slope
        output = _clamp(wanted, self.limit)
        stuck = held if held else (wanted > output) - (wanted < output)
        if stuck * self.ki * error > 0:
            total = state.total
            output = _clamp(self.kp * error + self.ki * total - self.kd * slope, self.limit)
        return PidState(total, measured), output


@dataclass(frozen=True)
class RelayState:
    """The experiment so far: the relay's side, when it switched, and the extremes since the last switches."""

    side: int = 0
    step: int = 0
    switches: tuple[int, ...] = ()
    extremes: tuple[float, ...] = ()
    extreme: float = 0.0


@dataclass(frozen=True)
class Relay:
    """Relay tuning (Astrom, Hagglund 1984): push +-d, watch the limit cycle, take gains from it.

        Ku = 4 d / (pi a),  a = half the swing of the measurement,  Pu = period of the cycle
        Kp = 0.6 Ku,  Ki = 1.2 Ku / Pu,  Kd = 0.075 Ku Pu             (Ziegler, Nichols)

    ``band`` is the hysteresis around the set-point that keeps noise from switching the relay. Without ``cycles`` full
    cycles in ``patience`` samples there is no result, and fixed gains are to be used.
    """

    push: float = 0.2
    setpoint: float = 0.9
    band: float = 0.02
    cycles: int = 3
    patience: int = 200

    def step(self, state: RelayState, measured: float) -> tuple[RelayState, float]:
        """One sample of the experiment: the state after it and the output to apply."""
        error = self.setpoint - measured
        side = 1 if error > self.band else -1 if error < -self.band else state.side or 1
        switched = bool(state.side) and side != state.side
        worst = measured if switched or not state.side else self._further(state, measured)
        return (
            RelayState(
                side,
                state.step + 1,
                (*state.switches, state.step) if switched else state.switches,
                (*state.extremes, state.extreme) if switched else state.extremes,
                worst,
            ),
            side * self.push,
        )

    def done(self, state: RelayState) -> bool:
        """Whether the experiment is over, with or without a result."""
        return len(state.switches) >= 2 * self.cycles + 1 or state.step >= self.patience

    def gains(self, state: RelayState) -> tuple[float, float, float] | None:
        """(Kp, Ki, Kd) from the cycles seen, or None where there were too few. The first half cycle is left out."""
        if len(state.switches) < 2 * self.cycles + 1:
            return None
        switches, extremes = state.switches[1:], state.extremes[1:]
        period = 2 * (switches[-1] - switches[0]) / (len(switches) - 1)
        swing = sum(abs(b - a) for a, b in pairwise(extremes)) / (len(extremes) - 1) / 2
        if swing <= 0:
            return None
        ku = 4 * self.push / (pi * swing)
        return 0.6 * ku, 1.2 * ku / period, 0.075 * ku * period

    @staticmethod
    def _further(state: RelayState, measured: float) -> float:
        """Pushing up the measurement is below the set-point at first, so the lowest value is the extreme."""
        return min(state.extreme, measured) if state.side > 0 else max(state.extreme, measured)


def _clamp(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)
