"""Queries and flows from topic to topic on Spark, with a real broker."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

import penstock as ps
from kafka_topics import new_topic, received, send
from penstock.apps import trading, wordcount
from penstock.apps.flow_app import Collected, Largest
from penstock.apps.own_data import topic_lines, topic_rows
from penstock.core.errors import PenstockError
from penstock.core.journal import MemoryJournal
from penstock.dataflow import running_count
from penstock.dataflow.schemas import schema_of
from penstock.preference import skyline
from penstock.spark import DeltaTable, KafkaTopic
from penstock.spark.runtime import milestones
from penstock.spark.runtime.python_source import PythonSource
from waiting import until

SCHEMA = "id long, at timestamp, price double, rating long, _corrupt_record string"


def offers(first, count, seconds):
    """Offers over some seconds of event time, from the ``first`` second on."""
    rng = np.random.default_rng(first)
    times = np.sort(rng.uniform(first, first + seconds, count))
    moments = (np.datetime64("2026-01-01T00:00:00") + (times * 1e6).astype("timedelta64[us]")).astype(str)
    prices, ratings = rng.integers(1, 50, count), rng.integers(1, 50, count)
    return [
        {
            "id": first * 10_000 + i,
            "at": f"{moments[i]}Z",
            "price": float(prices[i]),
            "rating": int(ratings[i]),
        }
        for i in range(count)
    ]


def best_by_second(rows):
    """Brute force: the skyline of every second."""
    answers = {}
    for second in {row["at"][:19] for row in rows}:
        some = [row for row in rows if row["at"][:19] == second]
        points = np.array([[row["price"], -row["rating"]] for row in some])
        answers[second] = sorted(some[i]["id"] for i in skyline(points))
    return answers


def stream_of(spark, broker, topic, **options):
    reader = spark.readStream.format("penstock-kafka").schema(options.pop("schema", SCHEMA))
    given = {"kafka.bootstrap.servers": broker.servers, "subscribe": topic, "startingOffsets": "earliest"}
    return reader.options(**{**given, **options}).load()


def test_a_query_goes_from_topic_to_topic_and_on_after_a_restart(spark, broker, tmp_path):
    source, answers, late, dead = (new_topic(broker, n) for n in (2, 2, 1, 1))
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("price"), ps.maximize("rating")),
        time="at",
        window="1 second",
        disorder=ps.FixedDelay("500 milliseconds"),
    )
    rows = offers(0, 300, 3), offers(3, 300, 3), offers(8, 1, 1)
    old = {**offers(0, 1, 1)[0], "id": 77}

    def run(engine):
        run = query.start(
            stream_of(spark, broker, source, maxOffsetsPerTrigger="200"),
            output=KafkaTopic(broker.servers, answers, key="id"),
            late=KafkaTopic(broker.servers, late),
            dead_letters=KafkaTopic(broker.servers, dead),
            checkpoint=tmp_path / "checkpoint",
            available_now=True,
            engine=engine,
        )
        assert run.await_termination(600)

    send(broker, source, rows[0], 2)
    run("resident")
    send(broker, source, [*rows[1], *rows[2]], 2)
    run("resident")
    send(broker, source, [b"oops", old, *offers(9, 1, 1)], 2)
    run("jobs")
    given = {}
    for answer in received(broker, answers):
        given.setdefault(answer["window_start"][:19], []).append(answer["id"])
    assert {second: sorted(ids) for second, ids in given.items()} == best_by_second(
        [*rows[0], *rows[1], *rows[2]]
    )
    assert [row["id"] for row in received(broker, late)] == [77]
    (bad,) = received(broker, dead)
    assert bad["_corrupt_record"] == "oops"
    assert "at" in bad["reason"]


@ps.operator(keys="word", state={"n": "int64"}, output={"word": str, "n": "int64"})
def count(rows, state, output):
    output.emit({"word": rows.column("word"), "n": running_count(rows.slots, state["n"])})


def test_a_flow_that_dies_around_its_deliveries_delivers_once(spark, broker, tmp_path):
    deltalake = pytest.importorskip(
        "deltalake", reason="Delta is not installed: pip install 'penstock[delta]'"
    )
    source, counts = new_topic(broker, 2), new_topic(broker)
    words = [{"word": f"w{i % 7}"} for i in range(120)]
    send(broker, source, words, 2)

    def run():
        flow = ps.Flow("words")
        stream = stream_of(spark, broker, source, schema="word string", maxOffsetsPerTrigger="30")
        counted = flow.source("words", stream).through(count)
        counted.sink("topic", KafkaTopic(broker.servers, counts))
        counted.sink("table", DeltaTable(str(tmp_path / "table")))
        return flow.start(spark, checkpoint=tmp_path / "checkpoint", available_now=True, engine="resident")

    for dying in (("after-commit", 0), ("before-delivery", 1), ("after-delivery", 2)):

        def die(point, batch, dying=dying):
            if (point, batch) == dying:
                raise PenstockError("The test ends the run here.")

        milestones.hooks.append(die)
        try:
            ended = run()
            with pytest.raises(PenstockError, match="The test ends the run here"):
                ended.await_termination(600)
        finally:
            milestones.hooks.remove(die)
    assert run().await_termination(600)
    right = Counter(
        (f"w{i}", n) for i in range(7) for n in range(1, sum(w["word"] == f"w{i}" for w in words) + 1)
    )
    assert Counter((row["word"], row["n"]) for row in received(broker, counts)) == right
    table = deltalake.DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    assert Counter((row["word"], row["n"]) for row in table) == right


def begun_by_workers(spark, flow, checkpoint):
    """A run that has read its source itself goes on doing so, with engine jobs too."""
    run = flow.start(spark, checkpoint=checkpoint, engine="resident", available_now=True)
    assert run.await_termination(600)


@pytest.mark.parametrize("engine", ["resident", "jobs"])
def test_a_run_whose_broker_goes_away_as_a_batch_is_read_goes_on_when_it_is_back(
    spark, broker, tmp_path, monkeypatch, engine
):
    source = new_topic(broker, 2)
    planned, killed = PythonSource.readings, []

    def dying(self, start, end):
        """The broker dies between the plan of the first batch and its reading."""
        if not killed:
            killed.append(broker.kill())
        return planned(self, start, end)

    monkeypatch.setattr(PythonSource, "readings", dying)
    flow, total = ps.Flow("words"), Largest("word", "n")
    words = stream_of(spark, broker, source, schema="word string", patience="2 seconds")
    flow.source("words", words).through(count).sink("counts", total)
    begun_by_workers(spark, flow, tmp_path / "checkpoint")
    send(broker, source, [{"word": f"w{i % 7}"} for i in range(100)], 2)
    journal = MemoryJournal()
    run = flow.start(
        spark,
        checkpoint=tmp_path / "checkpoint",
        engine=engine,
        trigger="100 milliseconds",
        journal=journal,
    )
    try:
        tried = until(
            lambda: [text for text in journal.texts() if "tried again" in text],
            "a batch that cannot be read",
            unless=lambda: not run.is_active,
        )
        assert "No Kafka broker answers" in tried[0]
        broker.start()
        ended = {"unless": lambda: not run.is_active}
        until(lambda: sum(total.counts.values()) == 100, "all words", **ended)
        send(broker, source, [{"word": "new"}])
        until(lambda: total.counts.get("new") == 1, "what came after", **ended)
    finally:
        run.stop()


@pytest.mark.parametrize("patience", ["30 seconds", "1 second"])
def test_what_the_source_says_to_a_spark_job_is_one_sentence(spark, broker, tmp_path, monkeypatch, patience):
    """Messages are deleted, or the broker goes, between the plan of a batch and its reading."""
    source = new_topic(broker)
    planned, done = PythonSource.readings, []

    def disturbed(self, start, end):
        if not done and patience == "30 seconds":
            place = TopicPartition(source, 0, 5)
            admin = broker.admin()  # has to live until the answer is there
            done.append(admin.delete_records([place])[place].result(60))
        elif not done:
            done.append(broker.kill())
        return planned(self, start, end)

    monkeypatch.setattr(PythonSource, "readings", disturbed)
    query = ps.PreferenceQuery(ps.skyline_of(ps.minimize("price")), time="at", window="1 second")
    spread = {"checkpoint": tmp_path / "ck", "output": tmp_path / "out"}

    def start(engine, **options):
        stream = stream_of(spark, broker, source, patience=patience)
        return query.start(stream, engine=engine, **spread, **options)

    assert start("resident", available_now=True).await_termination(600)
    send(broker, source, offers(0, 20, 2))
    if patience == "30 seconds":
        with pytest.raises(
            PenstockError, match=r"^Message 0 of topic '.*', partition 0, is no longer there: [^\n]*$"
        ):
            start("jobs", available_now=True).await_termination(600)
        return
    run = start("jobs", trigger="100 milliseconds", journal=(journal := MemoryJournal()))
    try:
        until(
            lambda: [text for text in journal.texts() if "tried again" in text],
            "a batch that cannot be read",
            unless=lambda: not run.is_active,
        )
        broker.start()
        until(lambda: run.progress.get("rows") == 20, "the rows", unless=lambda: not run.is_active)
    finally:
        run.stop()


def test_a_function_gets_the_rows_again_that_it_had_when_the_run_died(spark, broker, tmp_path):
    source = new_topic(broker)
    given = []

    def start(dies):
        def take(frame, batch):
            given.append((batch, sorted(frame.toArrow()["id"].to_pylist())))
            if dies:
                raise PenstockError("The test ends the run here.")

        query = ps.PreferenceQuery(
            ps.skyline_of(ps.minimize("price"), ps.maximize("rating")),
            time="at",
            window="1 second",
            disorder=ps.FixedDelay("500 milliseconds"),
        )
        stream = stream_of(spark, broker, source)
        return query.start(
            stream, output=take, checkpoint=tmp_path / "ck", available_now=True, engine="resident"
        )

    send(broker, source, offers(0, 300, 3))
    with pytest.raises(PenstockError, match="The test ends the run here"):
        start(dies=True).await_termination(600)
    send(broker, source, offers(3, 300, 3))
    assert start(dies=False).await_termination(600)
    before, again, later = given
    assert before == again
    assert later[0] == 1
    assert not set(later[1]) & set(before[1])


def test_two_sinks_cannot_share_a_topic(spark, broker, tmp_path):
    flow = ps.Flow("words")
    words = flow.source("words", stream_of(spark, broker, new_topic(broker), schema="word string"))
    words.through(count).sink("a")
    words.through(count, name="again").sink("b")
    with pytest.raises(PenstockError, match="cannot share one KafkaTopic"):
        flow.start(spark, output=KafkaTopic(broker.servers, "t"), checkpoint=tmp_path / "c")


def test_applications_take_the_lines_and_the_named_fields_of_topics(spark, broker, tmp_path):
    texts, rows = new_topic(broker, 2), new_topic(broker)
    lines = wordcount.sentences(60)
    send(broker, texts, [line.encode() for line in lines], 2)
    quotes = pa.table(trading.quotes_of(np.arange(2000), 3)).to_pylist()
    send(broker, rows, [{"when": q["ts"], "symbol": q["symbol"], "last": q["price"]} for q in quotes])
    counts, candles = Largest("word", "count"), Collected()
    flow = ps.Flow("topics")
    words = flow.source("lines", topic_lines(spark, f"kafka://{broker.servers}/{texts}"))
    wordcount.build(words).sink("counts", counts)
    names = {"ts": "when", "symbol": "symbol", "price": "last"}
    stream = topic_rows(spark, f"kafka://{broker.servers}/{rows}", names, schema_of(trading.QUOTE))
    trading.build(flow.source("quotes", stream), 10, 2).sink("candles", candles)
    run = flow.start(spark, checkpoint=tmp_path / "ck", available_now=True)
    run.await_termination()
    assert counts.counts == dict(wordcount.oracle(lines))
    found = [] if candles.table is None else candles.table.to_pylist()
    expected = trading.by_symbol(trading.oracle(quotes, 10, 2))
    assert trading.by_symbol(found) == expected
    assert expected
