"""The names that programs outside the repository rely on."""

import penstock.core
import penstock.core.control_quality
import penstock.core.journal
import penstock.forecast
import penstock.policies
import penstock.policies.fuzzy
import penstock.testing


def test_policies_are_found_by_their_names():
    names = {"Static", "Threshold", "RuleBased", "Spl", "Fuzzy", "Mpc", "Mead", "Organic", "PipelinedFission"}
    assert set(penstock.policies.__all__) == names
    for name in names:
        policy = getattr(penstock.policies, name)()
        assert policy.name == name
    assert callable(penstock.policies.fuzzy.infer)


def test_contracts_fakes_and_suites_are_found_by_their_names():
    for module, names in (
        (penstock.core, ["Observation", "Decision", "Policy", "Plant", "Controller", "Guards", "Metric", "Journal", "Change", "Knob"]),
        (penstock.core.journal, ["read", "FileJournal", "MemoryJournal"]),
        (penstock.core.control_quality, ["figures"]),
        (penstock.testing, ["check_policy", "check_plant", "check_forecaster", "check_preference", "ScriptedPlant", "RecordingActuator"]),
        (penstock.forecast, ["LastValue", "MovingAverage", "Holt", "HoltWinters"]),
    ):  # fmt: skip
        for name in names:
            assert hasattr(module, name), f"{module.__name__}.{name}"


def test_the_policy_of_the_documentation_keeps_the_contract():
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    example = text.split("## Writing one")[1].split("```python")[1].split("```")[0]
    exec(compile(example, "docs/policies.md", "exec"), {"__name__": "docs"})
