"""Elastic, burst-tolerant stream processing on Apache Spark.

The public names load on first use, so that ``import penstock`` stays cheap and works without Spark.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name -> the module that defines it.
_PUBLIC = {
    "PreferenceQuery": "penstock.spark.query.preference_query",
    "KSlack": "penstock.disorder",
    "AdaptiveSlack": "penstock.disorder",
    "FixedDelay": "penstock.disorder",
    "InOrder": "penstock.disorder",
    "PenstockError": "penstock.core.errors",
    "minimize": "penstock.preference.builders",
    "maximize": "penstock.preference.builders",
    "diff": "penstock.preference.builders",
    "skyline_of": "penstock.preference.builders",
    "k_dominant_of": "penstock.preference.builders",
    "top_delta": "penstock.preference.builders",
    "top_k": "penstock.preference.builders",
    "Preference": "penstock.preference.preference",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
