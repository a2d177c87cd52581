import importlib.util
from pathlib import Path

from penstock.dataflow.reference import Reference


def example(name):
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_barrier_of_the_example_waits_for_ten_on_both_sides():
    barrier = example("barrier")
    run = Reference(barrier.build())
    assert run.run({"left": barrier.rows("a", list(range(10)))}) == {}
    assert run.run({"right": barrier.rows("a", [5] * 9)}) == {}
    totals = run.run({"right": barrier.rows("a", [5])})["totals"].to_pylist()
    assert totals == [{"key": "a", "total": sum(max(n, 5) for n in range(10))}]


def test_the_visits_of_the_web_log_are_those_without_half_an_hour_of_silence():
    web = example("web_sessions")
    lines = web.SAMPLE.splitlines()
    found = {batch: web.visits_of(lines, batch) for batch in (1, 2)}
    shown = {
        batch: sorted((v["host"], v["rows"], v["entered"], v["left"], v["bytes"]) for v in visits)
        for batch, visits in found.items()
    }
    assert shown[1] == shown[2]
    assert shown[1] == [
        ("10.0.0.1", 3, "/start", "/basket", 1792),
        ("10.0.0.2", 1, "/news", "/news", 2048),
        ("10.0.0.2", 1, "/news", "/news", 2048),
    ]


def test_payments_get_the_login_of_the_hour_before():
    join = example("enrichment_join")
    run = Reference(join.build())
    logins = [("ann", 100.0, "NL"), ("ann", 100.5, "NL"), ("bob", 120.0, "IT")]
    payments = [("ann", 400.0, 12.5), ("ann", 9000.0, 1.0), ("bob", 100.0, 80.0)]
    given = {"logins": join.table(join.LOGINS, logins), "payments": join.table(join.PAYMENTS, payments)}
    end = {"logins": join.table(join.LOGINS, [("dan", 80_000.0, "DE")])}
    out = run.run_all([given, end, end])["payments"].to_pylist()
    assert sorted((r["user"], r["at"], r["right_at"], r["country"]) for r in out if r["country"]) == [
        ("ann", 400.0, 100.0, "NL")
    ]
    assert sorted((r["user"], r["at"]) for r in out if r["country"] is None) == [
        ("ann", 9000.0),
        ("bob", 100.0),
    ]


def test_an_alarm_goes_out_when_no_confirmation_came_in_time():
    fraud = example("fraud_rule")
    run = Reference(fraud.build())
    paid = [("1", 0.0, 0.5), ("2", 1.0, 0.9), ("1", 10.0, 900.0), ("2", 12.0, 700.0), ("3", 13.0, 900.0)]
    batch = {
        "payments": fraud.table(fraud.PAYMENTS, paid),
        "confirmed": fraud.table(fraud.CONFIRMED, [("2", 20.0)]),
    }
    assert run.run(batch) == {}
    later = {"payments": fraud.table(fraud.PAYMENTS, [("4", 100.0, 20.0)])}
    assert run.run(later) == {}
    assert run.run(later)["alarms"].to_pylist() == [{"card": "1", "at": 10.0, "amount": 900.0}]
