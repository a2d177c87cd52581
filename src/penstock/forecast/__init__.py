"""Forecasters of load, one file each, behind one interface: :mod:`penstock.forecast.forecaster`."""

from typing import TYPE_CHECKING

from penstock.core.deprecation import moved

if not TYPE_CHECKING:
    __getattr__ = moved(
        "penstock.forecast",
        {
            "LastValue": "last_value",
            "MovingAverage": "moving_average",
            "Holt": "holt",
            "HoltWinters": "holt_winters",
        },
    )
