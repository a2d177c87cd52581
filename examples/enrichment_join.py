"""An enrichment join of two streams: each payment with the login of its user in the hour before it.

A payment without one is given out with nulls, once none can come any more. Run it with: python examples/enrichment_join.py
"""

import pyarrow as pa

import penstock
from penstock.dataflow import Reference, deduplicate, interval_join

PAYMENTS = {"user": str, "at": float, "amount": float}
LOGINS = {"user": str, "at": float, "country": str}


def build(payments=PAYMENTS, logins=LOGINS):
    """The flow; on Spark both are streaming DataFrames, for example of two Kafka topics."""
    flow = penstock.Flow("enrich")
    paid = flow.source("payments", payments, time="at")
    seen = flow.source("logins", logins, time="at")
    # The login service sends some events twice.
    once = seen.through(deduplicate(keys=["user", "country"], time="at", within=1, slack=60))
    # A login is from 3600 to 0 seconds before its payment.
    pairs = paid.through(
        interval_join(keys="user", time="at", lower=-3600, upper=0, slack=60, outer=True), once
    )
    pairs.sink("payments")
    return flow


def table(columns, rows):
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(columns)})


if __name__ == "__main__":
    flow = build()
    print(flow.explain())
    run = Reference(flow)
    logins = [("ann", 100.0, "NL"), ("ann", 100.5, "NL"), ("bob", 120.0, "IT")]
    payments = [("ann", 400.0, 12.5), ("cid", 500.0, 80.0)]
    print(run.run({"logins": table(LOGINS, logins), "payments": table(PAYMENTS, payments)}))
    run.run({"logins": table(LOGINS, [("dan", 9000.0, "DE")])})
    print(run.run({"logins": table(LOGINS, [("dan", 9001.0, "DE")])}))
