"""Forecasters of load, one file each, behind one interface."""

from penstock.forecast.holt import Holt
from penstock.forecast.holt_winters import HoltWinters
from penstock.forecast.last_value import LastValue
from penstock.forecast.moving_average import MovingAverage

__all__ = ["LastValue", "MovingAverage", "Holt", "HoltWinters"]
