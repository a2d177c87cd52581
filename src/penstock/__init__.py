"""Elastic, burst-tolerant stream processing on Apache Spark.

The public names load on first use, so that ``import penstock`` stays cheap and works without Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; each name here is one of _PUBLIC
    from penstock.core.errors import PenstockError as PenstockError
    from penstock.disorder import AdaptiveSlack as AdaptiveSlack
    from penstock.disorder import FixedDelay as FixedDelay
    from penstock.disorder import InOrder as InOrder
    from penstock.disorder import KSlack as KSlack
    from penstock.preference.builders import diff as diff
    from penstock.preference.builders import k_dominant_of as k_dominant_of
    from penstock.preference.builders import maximize as maximize
    from penstock.preference.builders import minimize as minimize
    from penstock.preference.builders import skyline_of as skyline_of
    from penstock.preference.builders import top_delta as top_delta
    from penstock.preference.builders import top_k as top_k
    from penstock.preference.preference import Preference as Preference
    from penstock.spark.attach.attach import attach as attach
    from penstock.spark.query.preference_query import PreferenceQuery as PreferenceQuery

__version__ = "0.2.0"

#: Public name -> the module that defines it.
_PUBLIC = {
    "PreferenceQuery": "penstock.spark.query.preference_query",
    "KSlack": "penstock.disorder",
    "Flow": "penstock.spark.flow.flow",
    "operator": "penstock.dataflow.operators",
    "Operator": "penstock.dataflow.operators",
    "need_all": "penstock.dataflow.firing",
    "need_any": "penstock.dataflow.firing",
    "AdaptiveSlack": "penstock.disorder",
    "FixedDelay": "penstock.disorder",
    "InOrder": "penstock.disorder",
    "PenstockError": "penstock.core.errors",
    "attach": "penstock.spark.attach.attach",
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
