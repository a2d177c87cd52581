"""``penstock doctor``."""

import json

from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli import doctor as module
from penstock.core.errors import PenstockError


def test_doctor_tells_versions_and_actuators_as_json():
    result = CliRunner().invoke(app, ["doctor", "--json", "--quick"])
    found = json.loads(result.stdout)
    assert found["spark"].startswith("4.")
    assert found["cores"]["usable"] >= 1
    names = {a["name"]: a for a in found["actuators"]}
    assert set(names) == {"CPU share", "CPU frequency", "energy counters", "slots", "executors"}
    assert all(a["works"] or a["how"] for a in names.values())
    assert result.exit_code == (1 if found["problems"] else 0)


def test_doctor_prints_a_page_for_people():
    result = CliRunner().invoke(app, ["doctor", "--quick"])
    assert "Python" in result.stdout
    assert "energy counters" in result.stdout


def test_a_missing_java_is_a_problem_and_code_1(monkeypatch):
    import penstock.spark.machine as machine

    def nothing():
        raise PenstockError("Spark needs Java 17 or newer and none was found.")

    monkeypatch.setattr(machine, "find_java", nothing)
    found = module.examine(quick=False)
    assert found["problems"]
    assert found["actuators"][-1]["works"] is False
    assert CliRunner().invoke(app, ["doctor", "--quick"]).exit_code == 1


def test_pandas_and_protobuf_are_looked_at(monkeypatch):
    import penstock.spark.machine as machine

    found = machine.facts()["packages"]
    assert found["pandas"].startswith("2.")
    assert found["protobuf"]
    monkeypatch.setattr(
        machine, "_version", lambda name: {"pandas": "3.1.0", "protobuf": None}.get(name, "1.0")
    )
    facts = machine.facts()
    assert any("pandas 3.1.0 is not supported" in problem for problem in facts["problems"])
    assert "missing" in facts["packages"]["protobuf"]
    assert not any("protobuf" in problem for problem in facts["problems"]), "Penstock itself does without it"


def test_a_time_out_is_told_from_an_impossibility(monkeypatch):
    """The probe is given no time at all: that says nothing about whether executors can be had."""
    from penstock.spark.actuators import executor_probe

    monkeypatch.setattr(executor_probe.probe, "__defaults__", (None, 0.0))
    ability = module.examine(quick=False)["actuators"][-1]
    assert ability["works"] is False
    assert ability["unknown"] is True
    assert "again" in ability["how"]
    refused = executor_probe.failed(PenstockError("This is local mode."))
    assert not refused.unknown


def test_a_time_out_has_a_mark_of_its_own(monkeypatch):
    found = module.examine(quick=True)
    found["actuators"] = [
        {"name": "executors", "works": False, "found": "Late.", "how": "Again.", "unknown": True}
    ]
    monkeypatch.setattr(module, "examine", lambda quick: found)
    assert "?   executors" in CliRunner().invoke(app, ["doctor"]).stdout
