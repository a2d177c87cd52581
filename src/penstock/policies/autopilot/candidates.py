"""Who is rehearsed where nobody was named: fixed sizes, and policies from cautious to thrifty."""

from penstock.core.capacity import Knob
from penstock.core.policy import AnyPolicy
from penstock.policies.ds2 import Ds2
from penstock.policies.hpa import Hpa
from penstock.policies.static import Static
from penstock.policies.threshold import Threshold

#: Utilisations aimed at.
_UTILISATIONS = (0.8, 0.65, 0.5, 0.35, 0.25)
#: Seconds over which rates are averaged -> seconds for which nothing is decided after a change.
_WINDOWS = {5.0: 5.0, 15.0: 10.0, 60.0: 10.0, 180.0: 10.0}


def sizes(least: int, most: int) -> list[int]:
    """Fixed sizes from the most to the least, each about 15 % below the one before.

    >>> sizes(1, 12)
    [12, 10, 8, 7, 6, 5, 4, 3, 2, 1]
    """
    found = [most]
    while found[-1] > least:
        found.append(max(least, min(found[-1] - 1, round(found[-1] * 0.85))))
    return found


def default_candidates(limits: tuple[int, int]) -> tuple[AnyPolicy, ...]:
    """Sizes, rates with little or much to spare, and the ratio rule with short and long memory; the peak first."""
    chosen: list[AnyPolicy] = [Static(executors=n, name=f"Static {n}") for n in sizes(*limits)]
    chosen += [_by_rate(aim, window, limits) for aim in _UTILISATIONS for window in _WINDOWS]
    chosen += [_by_ratio(aim, window, limits) for aim in (0.8, 0.6, 0.4) for window in (60.0, 180.0, 600.0)]
    chosen += [
        Threshold(high, low, Knob.EXECUTORS, limits, name=f"Threshold at {high:.0%}")
        for high, low in ((0.8, 0.5), (0.6, 0.35))
    ]
    return tuple(chosen)


def _by_rate(aim: float, window: float, limits: tuple[int, int]) -> Ds2:
    return Ds2(
        utilisation=aim,
        boundary=min(0.2, 0.4 * aim),
        window=window,
        settle=_WINDOWS[window],
        restart=0.0,
        catch_up=15.0,
        knob=Knob.EXECUTORS,
        limits=limits,
        name=f"Ds2 at {aim:.0%} over {window:.0f} s",
    )


def _by_ratio(aim: float, window: float, limits: tuple[int, int]) -> Hpa:
    return Hpa(
        utilisation=aim,
        down_window=window,
        grow_least=limits[1],
        knob=Knob.EXECUTORS,
        limits=limits,
        name=f"Hpa at {aim:.0%} for {window:.0f} s",
    )
