"""The tutorial of docs/dataflow.md runs as it stands."""

import re
from pathlib import Path

import pyarrow as pa

from penstock.dataflow import Reference
from penstock.dataflow.graph import Graph


def test_the_code_of_the_tutorial_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "dataflow.md").read_text()
    tutorial = page[page.index("## Tutorial") : page.index("## How to")]
    names = {}
    blocks = re.findall(r"^```python\n(.*?)^```", tutorial, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    for block in blocks[:5]:  # the last is on Spark, and runs with the blocks of the other pages
        exec(block, names)
    assert "region spending: partitioned by customer" in capsys.readouterr().out
    rows = pa.table({"customer": ["a", "b", "a"], "price": [1.0, 2.0, 4.0], "at": [0.0] * 3})
    graph = Graph("both")
    orders = graph.source("orders", {"customer": str, "price": float, "at": float})
    orders.through(names["spending"], name="slow").sink("slow")
    orders.through(names["fast_spending"], name="fast").sink("fast")
    out = Reference(graph).run({"orders": rows})
    for customer in "ab":  # the order of different keys is not promised
        slow, fast = ([r for r in out[n].to_pylist() if r["customer"] == customer] for n in ("slow", "fast"))
        assert slow == fast
