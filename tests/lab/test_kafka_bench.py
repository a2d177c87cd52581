"""Figures of ``penstock bench kafka`` that are computed from what runs leave behind."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from penstock.core.journal import MemoryJournal
from penstock_lab.benches.kafka_backlog import course_of
from penstock_lab.benches.kafka_kills import _note
from penstock_lab.benches.kafka_rates import _commit_lags, claim_rates
from penstock_lab.benches.kafka_readers import ANSWERS, Follower, committed
from penstock_lab.benches.kafka_runs import FULL, QUICK, Setting
from penstock_lab.results import ResultsPage


def test_the_lag_of_a_table_is_from_the_first_and_the_last_window_of_a_commit_to_the_commit(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    before = datetime.now(UTC)
    for seconds in (5, 2):
        ends = [before - timedelta(seconds=seconds + late) for late in (4, 1, 0)]
        table = pa.table({"window_end": pa.array(ends, pa.timestamp("us", "UTC")), "a": [1.0, 2.0, 3.0]})
        deltalake.write_deltalake(str(tmp_path / "table"), table, mode="append")
    took = (datetime.now(UTC) - before).total_seconds()
    lags = _commit_lags(tmp_path / "table", before.timestamp() - 1, before.timestamp() + took + 1)
    assert len(lags) == 4
    for lag, seconds in zip(lags, (9, 5, 6, 2), strict=True):
        assert seconds - 0.01 <= lag <= seconds + took + 0.01
    assert _commit_lags(tmp_path / "table", 0.0, 1.0) == []


def test_a_commit_of_one_window_counts_once(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    now = datetime.now(UTC)
    table = pa.table({"window_end": pa.array([now, now], pa.timestamp("us", "UTC"))})
    deltalake.write_deltalake(str(tmp_path / "table"), table)
    assert len(_commit_lags(tmp_path / "table", now.timestamp() - 60, now.timestamp() + 60)) == 1


def runs(sent, taken, p50, p95):
    return [{"sent": sent, "taken": taken, "lag_p50": p50, "lag_p95": p95 + n / 10} for n in range(3)]


def judged(ours, hand, claimed=100_000, rate=100_000):
    page = ResultsPage("Kafka", "penstock bench kafka")
    claim_rates(page, "Skyline", claimed, rate, (ours, hand))
    return {claim.text: claim.holds for claim in page.claims}


def test_lags_are_compared_where_both_ways_hold_the_rate():
    ours, hand = runs(100_000, 99_500, 0.9, 2.0), runs(100_000, 99_000, 1.4, 1.5)
    assert judged(ours, hand) == {
        "Skyline: 100,000 rows/s are held": True,
        "Skyline: a shorter answer lag P50 than by hand": True,
        "Skyline: a shorter answer lag P95 than by hand": False,
    }


def test_rows_are_compared_where_one_way_does_not_hold_the_rate():
    ours, hand = runs(100_000, 99_500, 0.9, 2.0), runs(100_000, 60_000, 0.4, 0.5)
    assert judged(ours, hand) == {
        "Skyline: 100,000 rows/s are held": True,
        "Skyline: more rows than by hand": True,
    }


def test_a_rate_that_is_held_below_the_one_asked_for_does_not_pass_for_it():
    ours = runs(50_000, 50_000, 0.9, 2.0)
    assert not judged(ours, ours, claimed=100_000, rate=50_000)["Skyline: 100,000 rows/s are held"]


def test_a_quick_look_keeps_nothing_beside_the_page_of_full_runs(tmp_path):
    page, scratch = tmp_path / "page", tmp_path / "scratch"
    assert Setting(None, scratch, QUICK, page).kept == scratch
    assert Setting(None, scratch, FULL, page).kept == page


def test_the_note_tells_of_connections_only_where_they_were_reset():
    assert "are reset on both sides" in _note(Counter(driver=2, broker=1, connections=1))
    assert "could not be reset" in _note(Counter(driver=2, broker=2))


def test_rows_waiting_are_told_beside_the_executors_of_that_moment():
    journal = MemoryJournal()
    journal.records[0]["started"] = 1000.0
    for time, registered in ((2.0, 1.0), (4.0, 1.0), (6.0, 3.0)):
        journal.put({"kind": "observation", "time": time, "period": 2.0, "extra": {"registered": registered}})
    looked = [(1003.0, 50.0), (1005.5, 900.0), (1006.5, 800.0)]
    course = course_of(looked, journal.tables(), burst=1005.0)
    assert course.times.tolist() == [-2.0, 0.5, 1.5]
    assert course.held.tolist() == [1.0, 1.0, 3.0]
    assert course.since.waiting.tolist() == [900.0, 800.0]


@pytest.mark.long
def test_a_reader_who_reads_all_the_while_counts_what_one_counts_who_comes_afterwards(broker):
    from confluent_kafka import Producer

    topics = [broker.create(f"followed-{name}", ANSWERS) for name in ("a", "b")]
    follower = Follower(broker.servers, topics)
    follower.start()
    for outcome in ("commit", "abort", "commit"):
        producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": f"bench-{outcome}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in range(100):
            producer.produce(topics[number % 2], f"{outcome} {number}".encode())
        (producer.commit_transaction if outcome == "commit" else producer.abort_transaction)(60)
    whole = {topic: committed(broker, topic) for topic in topics}
    assert [counts.total() for counts in whole.values()] == [100, 100]
    assert follower.agrees(whole)
    other = Follower(broker.servers, topics)
    other.start()
    whole[topics[0]][b"never sent"] += 1
    assert not other.agrees(whole, patience=5.0)
