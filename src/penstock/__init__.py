"""Elastic, burst-tolerant stream processing on Apache Spark.

Public names and subpackages load on first use, so that ``import penstock`` stays cheap and works without Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

__all__ = [
    "__version__",
    # preference queries
    "PreferenceQuery", "Preference", "WindowQuery",
    "minimize", "maximize", "diff", "skyline_of", "k_dominant_of", "top_delta_of", "top_k_of",
    "InOrder", "FixedDelay", "KSlack", "AdaptiveSlack",
    # flows
    "Flow", "Operator", "operator", "need_all", "need_any",
    # autoscaling of any query
    "attach",
    "PenstockError",
    # subpackages
    "core", "aggregates", "dataflow", "models", "policies", "preference", "sim", "spark", "testing", "traffic",
]  # fmt: skip

if TYPE_CHECKING:  # what type checkers and editors see; at run time the same names load on first use
    from penstock import aggregates as aggregates
    from penstock import core as core
    from penstock import dataflow as dataflow
    from penstock import models as models
    from penstock import policies as policies
    from penstock import preference as preference
    from penstock import sim as sim
    from penstock import spark as spark
    from penstock import testing as testing
    from penstock import traffic as traffic
    from penstock.core.errors import PenstockError as PenstockError
    from penstock.dataflow import Operator as Operator
    from penstock.dataflow import need_all as need_all
    from penstock.dataflow import need_any as need_any
    from penstock.dataflow import operator as operator
    from penstock.disorder import AdaptiveSlack as AdaptiveSlack
    from penstock.disorder import FixedDelay as FixedDelay
    from penstock.disorder import InOrder as InOrder
    from penstock.disorder import KSlack as KSlack
    from penstock.preference.builders import diff as diff
    from penstock.preference.builders import k_dominant_of as k_dominant_of
    from penstock.preference.builders import maximize as maximize
    from penstock.preference.builders import minimize as minimize
    from penstock.preference.builders import skyline_of as skyline_of
    from penstock.preference.builders import top_delta_of as top_delta_of
    from penstock.preference.builders import top_k_of as top_k_of
    from penstock.preference.preference import Preference as Preference
    from penstock.spark.attach.attach import attach as attach
    from penstock.spark.flow.flow import Flow as Flow
    from penstock.spark.query.preference_query import PreferenceQuery as PreferenceQuery
    from penstock.spark.query.window_query import WindowQuery as WindowQuery

    top_delta, top_k = top_delta_of, top_k_of
else:  # a __getattr__ that type checkers see would make every misspelt name an Any
    _SUBPACKAGES = frozenset(__all__[__all__.index("core") :])

    #: Public name -> the module that has it.
    _HOMES = {
        "PenstockError": "penstock.core.errors",
        **dict.fromkeys(("Operator", "operator", "need_all", "need_any"), "penstock.dataflow"),
        **dict.fromkeys(("InOrder", "FixedDelay", "KSlack", "AdaptiveSlack"), "penstock.disorder"),
        **dict.fromkeys(
            ("diff", "maximize", "minimize", "skyline_of", "k_dominant_of", "top_delta_of", "top_k_of"),
            "penstock.preference.builders",
        ),
        "Preference": "penstock.preference.preference",
        "attach": "penstock.spark.attach.attach",
        "Flow": "penstock.spark.flow.flow",
        "PreferenceQuery": "penstock.spark.query.preference_query",
        "WindowQuery": "penstock.spark.query.window_query",
    }

    #: Names of 0.1 that go with 0.3: penstock.preference has kernels of the same names.
    _OLD = {"top_k": "top_k_of", "top_delta": "top_delta_of"}

    def __getattr__(name):
        if name in _SUBPACKAGES:
            return import_module(f"penstock.{name}")
        if name in _OLD:
            from penstock.core.deprecation import deprecated

            deprecated(f"penstock.{name}", f"penstock.{_OLD[name]}")
            return __getattr__(_OLD[name])
        if name not in _HOMES:
            raise AttributeError(f"module 'penstock' has no attribute '{name}'")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted(__all__)
