"""A chain of operators: Python workers join the groups of the operators they run, and tell what they took."""

import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.spark.actuators import cpu_share
from penstock.spark.actuators.cpu_share import CpuShare
from penstock_lab.trials.chain_logs import SAMPLE, operators
from penstock_lab.trials.chain_operators import ChainOperator, Use, branch, chain, read_uses

ABILITY = cpu_share.probe()


def where(batch):
    """The control group this worker is in."""
    with open("/proc/self/cgroup") as file:
        mine = ",".join(line.strip() for line in file if "penstock" in line)
    names = [mine] * batch.num_rows
    return pa.RecordBatch.from_arrays([batch.column(0), pa.array(names, pa.string())], ["id", "group"])


def add_place(batch):
    with open("/proc/self/cgroup") as file:
        mine = ",".join(line.strip() for line in file if "penstock" in line)
    names = [mine] * batch.num_rows
    return pa.RecordBatch.from_arrays(
        [batch.column(0), batch.column(1), pa.array(names, pa.string())], ["id", "group", "second"]
    )


OPERATORS = (
    ChainOperator("first", where, "id long, group string"),
    ChainOperator("second", add_place, "id long, group string, second string"),
)


# Control groups need rights that not every machine gives; this is about the real kernel.
@pytest.mark.skipif(not ABILITY.works, reason=f"no CPU quotas here: {ABILITY.found}")
def test_each_operator_runs_in_its_own_group(spark, tmp_path):
    with CpuShare() as shares:
        groups = {o.name: str(shares.group(o.name).path) for o in OPERATORS}
        rows = chain(spark.range(100), OPERATORS, groups, tmp_path / "uses").collect()
        assert len(rows) == 100
        assert {r["group"].rpartition("/")[2] for r in rows} == {"first"}
        assert {r["second"].rpartition("/")[2] for r in rows} == {"second"}
    uses, _ = read_uses(tmp_path / "uses", 0)
    assert sum(u.rows for u in uses if u.operator == "first") == 100
    assert sum(u.rows for u in uses if u.operator == "second") == 100


def test_uses_are_read_once_each_and_a_torn_line_is_left_for_later(tmp_path):
    path = tmp_path / "uses"
    assert read_uses(path, 0) == ([], 0)
    path.write_text("a 10 0.5 0.6\nb 1")
    uses, offset = read_uses(path, 0)
    assert uses == [Use("a", 10, 0.5, 0.6)]
    path.write_text("a 10 0.5 0.6\nb 10 1.0 2.0\n")
    uses, offset = read_uses(path, offset)
    assert uses == [Use("b", 10, 1.0, 2.0)]
    assert read_uses(path, offset) == ([], offset)


def test_operators_need_names_of_their_own(spark):
    with pytest.raises(PenstockError, match="name of its own"):
        chain(spark.range(1), (OPERATORS[0], OPERATORS[0]))


def test_branches_get_what_the_first_operator_gives_and_it_works_once(spark, tmp_path):
    uses = tmp_path / "uses"
    lines = spark.createDataFrame([(line,) for line in SAMPLE], "value string").coalesce(1)
    branch(lines, operators(7), uses=uses)
    found, _ = read_uses(uses, 0)
    assert sorted((u.operator, u.rows) for u in found) == [("counter", 4), ("matcher", 4), ("parser", 5)]
