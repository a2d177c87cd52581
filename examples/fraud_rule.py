"""A fraud rule with timers: a small payment and then a large one within a minute raises an alarm, unless it is confirmed in time.

The alarm goes out when the time for a confirmation is over, even if no row of that card comes any more: that is what the
timer is for. Run it with: python examples/fraud_rule.py
"""

import pyarrow as pa

import penstock
from penstock.dataflow import Reference

SMALL, LARGE, SOON, PATIENCE = 1.0, 500.0, 60.0, 30.0
PAYMENTS = {"card": str, "at": float, "amount": float}
CONFIRMED = {"card": str, "at": float}


def raise_alarm(key, state, output):
    """No confirmation came in time."""
    output.emit({**key, "at": state["suspect"], "amount": state["amount"]})
    state["suspect"] = -1.0


@penstock.operator(
    keys="card",
    inputs=["payments", "confirmed"],
    grain="key",
    state={"tested": (float, -1e9), "suspect": (float, -1.0), "amount": float},
    output={"card": str, "at": float, "amount": float},
    time="at",
    on_timer=raise_alarm,
)
def watch(rows, state, output):
    """Note a small payment, suspect a large one soon after it, and let a confirmation clear the card."""
    for paid in rows["payments"]:
        if paid["amount"] <= SMALL:
            state["tested"] = paid["at"]
        elif paid["amount"] >= LARGE and paid["at"] - state["tested"] <= SOON:
            state["suspect"], state["amount"] = paid["at"], paid["amount"]
            state.timer(paid["at"] + PATIENCE)
    if rows["confirmed"]:
        state["suspect"] = -1.0
        state.timer(None)


def build(payments=PAYMENTS, confirmed=CONFIRMED):
    """The flow; on Spark both are streaming DataFrames. Rows of the two are merged by their time."""
    flow = penstock.Flow("fraud")
    paid = flow.source("payments", payments, time="at")
    paid.through(watch, flow.source("confirmed", confirmed, time="at")).sink("alarms")
    return flow


def table(columns, rows):
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(columns)})


if __name__ == "__main__":
    run = Reference(build())
    paid = [("1111", 0.0, 0.5), ("2222", 1.0, 0.9), ("1111", 10.0, 900.0), ("2222", 12.0, 700.0)]
    print(run.run({"payments": table(PAYMENTS, paid), "confirmed": table(CONFIRMED, [("2222", 20.0)])}))
    run.run({"payments": table(PAYMENTS, [("3333", 100.0, 20.0)])})
    print(run.run({"payments": table(PAYMENTS, [("3333", 101.0, 20.0)])}))
