"""The names that programs outside the repository rely on."""

import penstock.core.control_quality
import penstock.core.journal
import penstock.policies
import penstock.policies.fuzzy


def test_a_policy_goes_by_the_name_of_its_class():
    for name in penstock.policies.__all__:
        assert getattr(penstock.policies, name)().name == name


def test_functions_of_the_documentation_are_found_by_their_names():
    assert callable(penstock.policies.fuzzy.infer)
    assert callable(penstock.core.journal.read)
    assert callable(penstock.core.journal.MemoryJournal)
    assert callable(penstock.core.control_quality.figures)


def test_the_policy_of_the_documentation_keeps_the_contract():
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    example = text.split("## Writing one")[1].split("```python")[1].split("```")[0]
    exec(compile(example, "docs/policies.md", "exec"), {"__name__": "docs"})
