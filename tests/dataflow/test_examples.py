import importlib.util
from pathlib import Path

from penstock.dataflow.reference import Reference


def test_the_barrier_of_the_example_waits_for_ten_on_both_sides():
    path = Path(__file__).parents[2] / "examples" / "barrier.py"
    spec = importlib.util.spec_from_file_location("barrier_example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    run = Reference(example.build())
    assert run.run({"left": example.rows("a", list(range(10)))}) == {}
    assert run.run({"right": example.rows("a", [5] * 9)}) == {}
    totals = run.run({"right": example.rows("a", [5])})["totals"].to_pylist()
    assert totals == [{"key": "a", "total": sum(max(n, 5) for n in range(10))}]
