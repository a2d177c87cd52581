"""The names that programs outside the repository rely on: every public name, literally."""

import subprocess
import sys
import warnings
from importlib import import_module

import pytest

import penstock
from waiting import PATIENCE

SUBPACKAGES = [
    "aggregates", "core", "dataflow", "models", "policies", "preference", "sim", "spark", "testing", "traffic",
]  # fmt: skip

PUBLIC = {
    "penstock": [
        "__version__", "PreferenceQuery", "WindowQuery", "Preference", "minimize", "maximize", "diff", "skyline_of", "k_dominant_of",
        "top_delta_of", "top_k_of", "InOrder", "FixedDelay", "KSlack", "AdaptiveSlack", "Flow", "Operator", "operator",
        "need_all", "need_any", "attach", "PenstockError", *SUBPACKAGES,
    ],
    "penstock.core": [
        "Observation", "Knob", "Change", "Decision", "Controller", "Guards", "Bound", "RollbackRule",
    ],
    "penstock.aggregates": [
        "Aggregate", "count", "sum_of", "mean_of", "min_of", "max_of", "quantile_of", "distinct_of",
    ],
    "penstock.dataflow": [
        "running_count", "running_max", "running_sum", "Reference", "sessions", "deduplicate", "interval_join", "top_n",
    ],
    "penstock.models": [
        "MAP", "Mmpp2", "Poisson", "kpc", "fit_map2", "fit_kpc", "Erlang", "MapPh1", "Mg1", "Kingman", "MicroBatch",
    ],
    "penstock.policies": [
        "Static", "Threshold", "RuleBased", "Spl", "Fuzzy", "Mpc", "Mead", "Organic", "PipelinedFission", "Ds2", "Hpa",
        "Dhalion", "Autopilot",
    ],
    "penstock.preference": ["skyline", "k_dominant", "top_delta", "top_k", "dominance_factor"],
    "penstock.sim": ["SparkLike", "SparkCosts", "compare", "load"],
    "penstock.spark": ["session", "running", "LocalCluster", "KafkaTopic", "DeltaTable"],
    "penstock.testing": ["check_policy", "check_plant", "check_preference", "ScriptedPlant"],
    "penstock.traffic": ["poisson", "map2", "describe"],
}  # fmt: skip

#: Names that were to be had from a package and are now its modules' own: package -> module -> names.
MOVED = {
    "penstock.core": {
        "capacity": ["Capacity"], "journal": ["FileJournal", "Journal"], "metrics": ["Metric"], "observation": ["StageObservation"],
        "plant": ["Plant"], "policy": ["Policy"],
    },
    "penstock.forecast": {
        "last_value": ["LastValue"], "moving_average": ["MovingAverage"], "holt": ["Holt"], "holt_winters": ["HoltWinters"],
    },
    "penstock.policies": {"dynamic_allocation": ["DynamicAllocation"]},
    "penstock.sim": {"plants.virtual": ["VirtualPlant"]},
    "penstock.spark.attach": {"settings": ["default_guards"]},
    "penstock.testing": {"forecaster_suite": ["check_forecaster"], "recording": ["RecordingActuator"]},
    "penstock.traffic": {"composition": ["Shaped", "Superposition"], "shapes": ["daily"], "trace": ["read_trace", "write_trace"]},
}  # fmt: skip


@pytest.mark.parametrize("module", PUBLIC)
def test_a_package_has_these_public_names_and_no_others(module):
    assert sorted(import_module(module).__all__) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_loads(module):
    for name in PUBLIC[module]:
        assert getattr(import_module(module), name) is not None


def test_subpackages_have_at_most_70_names_together():
    assert sum(len(names) for module, names in PUBLIC.items() if module != "penstock") <= 70


@pytest.mark.parametrize("package", MOVED)
def test_names_that_moved_warn_and_are_the_same(package):
    for home, names in MOVED[package].items():
        for name in names:
            with pytest.warns(DeprecationWarning, match=f"{package}.{name} is now {package}.{home}.{name}"):
                found = getattr(import_module(package), name)
            assert found is getattr(import_module(f"{package}.{home}"), name)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(penstock, "no_such_name")
    for package in MOVED:
        assert not hasattr(import_module(package), "no_such_name")


def test_names_and_subpackages_are_listed_before_they_are_loaded():
    code = (
        "import sys, penstock\n"
        "heavy = {'pyspark', 'numba', 'numpy', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert set(penstock.__all__) == set(dir(penstock))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("name", SUBPACKAGES)
def test_a_subpackage_needs_no_import_of_its_own(name):
    module = f"penstock.{name}"
    code = f"import penstock as ps; assert ps.{name}.__name__ == {module!r}; assert ps.{name}.__all__"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_builders_under_their_old_names_warn_and_do_the_same():
    for old, new, arguments in (
        ("top_k", "top_k_of", (3, penstock.minimize("a"))),
        ("top_delta", "top_delta_of", (3, penstock.minimize("a"))),
    ):
        with pytest.warns(DeprecationWarning, match=f"penstock.{new}"):
            builder = getattr(penstock, old)
        assert builder(*arguments) == getattr(penstock, new)(*arguments)


def test_the_new_names_of_builders_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert penstock.top_k_of(1, by="a").columns == ("a",)
        assert penstock.top_delta_of(1, penstock.minimize("a")).columns == ("a",)
