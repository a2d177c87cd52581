"""``penstock doctor``."""

import json

from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli import doctor as module


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
    from penstock.core.errors import PenstockError

    def nothing():
        raise PenstockError("Spark needs Java 17 or newer and none was found.")

    monkeypatch.setattr(machine, "find_java", nothing)
    found = module.examine(quick=False)
    assert found["problems"]
    assert found["actuators"][-1]["works"] is False
    assert CliRunner().invoke(app, ["doctor", "--quick"]).exit_code == 1
