"""The barrier of Joker's Fig. 2: ten tuples of a key from each of two ports, or nothing yet.

The operator declares its need and holds nothing back itself. Run it with: python examples/barrier.py
"""

import pyarrow as pa

import penstock
from penstock.dataflow import Reference


@penstock.operator(
    keys="key",
    inputs=["left", "right"],
    need=penstock.need_all(left=10, right=10),
    grain="key",
    output={"key": str, "total": int},
)
def sum_barrier(inputs, state, output):
    """The larger of each pair, added up for the key."""
    pairs = zip(inputs["left"], inputs["right"], strict=True)
    state["total"] = state.get("total", 0) + sum(max(a["num"], b["num"]) for a, b in pairs)
    output.emit({"key": inputs["left"][0]["key"], "total": state["total"]})


def build():
    flow = penstock.Flow("barrier")
    left = flow.source("left", {"key": str, "num": int})
    right = flow.source("right", {"key": str, "num": int})
    left.through(sum_barrier, right).sink("totals")
    return flow


def rows(key, numbers):
    return pa.table({"key": [key] * len(numbers), "num": numbers})


if __name__ == "__main__":
    flow = build()
    print(flow.explain())
    in_one_process = Reference(flow)
    print("ten on the left only:", in_one_process.run({"left": rows("a", list(range(10)))}))
    print("nine on the right:   ", in_one_process.run({"right": rows("a", [5] * 9)}))
    done = in_one_process.run({"right": rows("a", [5])})
    print("the tenth:           ", done["totals"].to_pylist())
