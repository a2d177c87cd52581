"""What a type checker knows about the public names, shown by running one on programs of a user."""

import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from waiting import PATIENCE

# What `make check` has found out about the package is used again.
OPTIONS = ("--follow-imports=silent", "--no-error-summary")
NAMES = [n for n in penstock.__all__ if n != "__version__"]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What mypy says about one program with everything in it, by line number."""
    folder = tmp_path_factory.mktemp("types")
    lines = ["import penstock", "import penstock as ps", *PROGRAM.splitlines()]
    lines += [f"reveal_type(penstock.{name})" for name in NAMES]
    program = folder / "program.py"
    program.write_text("\n".join(lines) + "\n")
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *OPTIONS, str(program)],
        capture_output=True,
        text=True,
        cwd=root,
        timeout=PATIENCE,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {}
    for line in done.stdout.splitlines():
        path, number, text = line.split(":", 2)
        assert Path(path).name == "program.py", line
        found.setdefault(lines[int(number) - 1], []).append(text.strip())
    return found


PROGRAM = """
penstock.Flowww
penstock.testing.check_polcy
from penstock import no_such_name
@ps.operator(keys="word", state={"n": int}, output={"word": str, "n": int}, need=ps.need_any(), grain="key")
def count(rows: object, state: object, output: object) -> None: ...
@ps.operator(stateful=True, grain="key")
class Total(ps.Operator):
    def invoke(self, inputs: object, state: object, output: object) -> None: ...
reveal_type(count)
reveal_type(Total)
ps.operator(kays="word")
ps.operator(grain="row")
stream = ps.Flow("words").source("words", {"word": str})
reveal_type(stream.through(count, name="c", keys=["word"]).port_named("out").sink("counts"))
stream.through(count, kays=["word"])
stream.graph.add(count, "c", kays=["word"])
ps.operator(keys=3)
reveal_type(ps.need_all(left=1))
reveal_type(ps.spark.session())
reveal_type(ps.policies.Mpc())
reveal_type(ps.models.Erlang(2, mean=1.0))
reveal_type(ps.top_k_of(3, by="a"))
reveal_type(ps.top_k(3, by="a"))
"""


def test_a_misspelt_name_is_an_error(told):
    assert "has no attribute" in told["penstock.Flowww"][0]
    assert "has no attribute" in told["penstock.testing.check_polcy"][0]
    assert "has no attribute" in told["from penstock import no_such_name"][0]


@pytest.mark.parametrize("name", NAMES)
def test_the_type_of_a_public_name_is_known(told, name):
    (note,) = told[f"reveal_type(penstock.{name})"]
    assert "Revealed type is" in note
    assert note != 'note: Revealed type is "Any"'


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("count", "penstock.dataflow.operators.FunctionOperator"),
        ("Total", "def () -> program.Total"),
        (
            'stream.through(count, name="c", keys=["word"]).port_named("out").sink("counts")',
            "penstock.dataflow.graph.Stream",
        ),
        ("ps.need_all(left=1)", "penstock.dataflow.firing.FiringRule"),
        ("ps.spark.session()", "pyspark.sql.session.SparkSession"),
        ("ps.policies.Mpc()", "penstock.policies.mpc.Mpc"),
        ("ps.models.Erlang(2, mean=1.0)", "penstock.models.phase_type.Erlang"),
        ('ps.top_k_of(3, by="a")', "penstock.preference.builders.TopK"),
        ('ps.top_k(3, by="a")', "penstock.preference.builders.TopK"),
    ],
)
def test_values_have_the_types_one_expects(told, expression, type_):
    assert told[f"reveal_type({expression})"] == [f'note: Revealed type is "{type_}"']


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ('ps.operator(kays="word")', 'Unexpected keyword argument "kays"'),
        ('ps.operator(grain="row")', "grain"),
        ("ps.operator(keys=3)", "keys"),
        ('stream.through(count, kays=["word"])', 'Unexpected keyword argument "kays"'),
        ('stream.graph.add(count, "c", kays=["word"])', 'Unexpected keyword argument "kays"'),
    ],
)
def test_a_property_that_an_operator_does_not_have_is_an_error(told, call, complaint):
    assert complaint in told[call][0]
    assert told[call][0].startswith("error:")
