"""Rows on their way to a table, and versions that are dropped as damaged: every row is there once; no Spark needed."""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

import penstock as ps
from kafka_topics import new_topic, received
from penstock.core.errors import PenstockError
from penstock.dataflow import running_count
from penstock.dataflow.graph import Graph
from penstock.spark import DeltaTable, KafkaTopic
from penstock.spark.delta import _as_text
from penstock.spark.runtime.arrow_data import write_parquet, write_segments
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.manifest import Manifest
from penstock.spark.runtime.milestones import hooks
from penstock.spark.runtime.output_places import OutputPlaces
from penstock.spark.runtime.own_loop import Begin, OwnLoop
from penstock.spark.runtime.python_source import PythonSource
from penstock.testing.flow_run import start_in_process

deltalake = pytest.importorskip("deltalake", reason="Delta is not installed: pip install 'penstock[delta]'")

SCHEMA = pa.schema([("n", pa.int64()), ("third", pa.int64())])


class Range(InputPartition):
    def __init__(self, start, end):
        super().__init__((start, end))


class Numbers(DataSourceStreamReader):
    """The numbers below ``there``, a hundred a batch at most; a new run begins with ``begin``."""

    def __init__(self, there, begin=0, most=100):
        self.there, self.begin, self.most = there, begin, most

    def initialOffset(self):
        return {"n": self.begin}

    def latestOffset(self, start, limit):
        return {"n": min(self.there, start["n"] + self.most)}

    def partitions(self, start, end):
        return [Range(start["n"], end["n"])]

    def read(self, partition):
        numbers = list(range(*partition.value))
        yield pa.record_batch({"n": numbers, "third": [n % 3 for n in numbers]}, SCHEMA)

    def commit(self, end):
        pass


def opened(folder, output):
    checkpoint = Checkpoint(folder / "ck", {"kind": "test"})
    places = OutputPlaces(checkpoint.folder, output)
    made = places.results("output")
    checkpoint.outboxes = tuple(places.outboxes)
    try:
        return checkpoint, made, checkpoint.recover({"output": made})
    except BaseException:
        checkpoint.close()
        raise


def run(folder, reader, output=None):
    """Everything that is there, by a run that reads its source itself and gives out what it reads."""
    checkpoint, out, latest = opened(folder, output or DeltaTable(str(folder / "table")))

    def process(rows, number, span):
        table = pa.Table.from_batches([b for read in rows.readings for b in read()])
        prefix = f"{number:012d}-abcdef"
        state = write_segments(checkpoint.state_folder, prefix, SCHEMA, [table])
        staged = f"{out.staging}/{prefix}-0.parquet"
        write_parquet(table, staged)
        result = out.publication(staged, f"part-{number:09d}-0000.parquet")
        checkpoint.commit(Manifest(number, {}, [state], [result], offset=span.end, start=span.start))

    source = PythonSource(reader, SCHEMA, None)
    begin = Begin.of(latest, checkpoint.dropped, source.first)
    loop = OwnLoop(source, process, begin, 0.0, True).start()
    loop.wait(None)
    checkpoint.close()
    if loop.error is not None:
        raise loop.error
    return checkpoint


def in_table(folder, column="n"):
    return sorted(deltalake.DeltaTable(folder / "table").to_pyarrow_table()[column].to_pylist())


def damaged(path):
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def newest_state(checkpoint):
    return checkpoint.state_folder / checkpoint.latest().files[0]


@pytest.mark.parametrize("batches", [1, 3])
def test_a_delivered_batch_whose_state_is_damaged_gets_the_rows_it_had(tmp_path, batches):
    before = 100 * (batches - 1) + 50
    checkpoint = run(tmp_path, Numbers(before))
    assert in_table(tmp_path) == list(range(before))
    damaged(newest_state(checkpoint))
    # Meanwhile more has come, so that the batch would reach further; and a new run would begin with what comes next.
    run(tmp_path, Numbers(before + 200, begin=before))
    assert in_table(tmp_path) == list(range(before + 200))


def test_a_crash_before_the_batch_is_committed_again_forgets_nothing(tmp_path):
    checkpoint = run(tmp_path, Numbers(250))
    damaged(newest_state(checkpoint))

    def die(point, batch):
        if (point, batch) == ("before-commit", 2):
            raise RuntimeError("the end")

    hooks.append(die)
    try:
        with pytest.raises(RuntimeError, match="the end"):
            run(tmp_path, Numbers(400))
    finally:
        hooks.remove(die)
    run(tmp_path, Numbers(400))
    assert in_table(tmp_path) == list(range(400))


def test_where_nobody_knows_the_rows_of_a_batch_that_may_have_been_sent_the_start_is_refused(tmp_path):
    checkpoint = run(tmp_path, Numbers(250))
    manifest = checkpoint._manifest(2)
    whole = manifest.read_text()
    manifest.write_text(whole[:40])
    with pytest.raises(
        PenstockError, match=r"only it says which rows batch 2 had.*restore it, or start with a new"
    ):
        run(tmp_path, Numbers(400))
    manifest.write_text(whole)  # the backup
    run(tmp_path, Numbers(400))
    assert in_table(tmp_path) == list(range(400))


def test_files_need_no_manifest_to_be_made_again(tmp_path):
    checkpoint = run(tmp_path, Numbers(250), tmp_path / "out")
    checkpoint._manifest(2).write_text("{")
    run(tmp_path, Numbers(400), tmp_path / "out")
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert [n for f in files for n in pq.read_table(f)["n"].to_pylist()] == list(range(400))


def test_a_receiver_that_is_ahead_of_the_checkpoint_is_noticed(tmp_path):
    """As after putting back an old copy of the checkpoint: the next batches have numbers that the receiver knows."""
    checkpoint = run(tmp_path, Numbers(250))
    checkpoint._manifest(2).unlink()
    with pytest.raises(PenstockError, match=r"has batch 2 of this run already.*ends with batch 1; restore"):
        run(tmp_path, Numbers(400))
    assert in_table(tmp_path) == list(range(250))


@ps.operator(keys="word", state={"n": "int64"}, output={"word": str, "n": "int64"})
def count(rows, state, output):
    output.emit({"word": rows.column("word"), "n": running_count(rows.slots, state["n"])})


def counts(folder, **options):
    graph = Graph("words")
    words = graph.source("words", {"word": str})
    words.through(count).through(passed).sink("counts", DeltaTable(str(folder / "table")))
    return start_in_process(graph, folder, groups=8, **options)


@ps.operator(keys="word", state={"seen": "int64"}, output={"word": str, "n": "int64"})
def passed(rows, state, output):
    output.emit({"word": rows.column("word"), "n": rows.column("n")})


@pytest.mark.parametrize("gather", [None, "1 hour"])
@pytest.mark.parametrize("dying", [False, True])
def test_what_was_sent_when_the_run_ended_is_not_sent_again_with_a_later_batch(tmp_path, gather, dying):
    """At the end a batch is committed again with what waited; the batch that is run again has to get as far."""
    batches = [{"words": pa.table({"word": ["a"] * 4})} for _ in range(4)]
    first = counts(tmp_path, gather=gather)
    first.rescale(overlap={"passed": True})
    for batch in batches[:3]:
        first.feed(batch)
    first.finish()
    assert in_table(tmp_path) == list(range(1, 13))
    damaged(newest_state(first._checkpoint))

    def die(point, batch):
        if (point, batch) == ("after-publish", 2):
            raise RuntimeError("the end")

    again = counts(tmp_path, gather=gather)
    if dying:
        hooks.append(die)
        with pytest.raises(RuntimeError, match="the end"):
            [again.feed(batch) for batch in batches]
        hooks.remove(die)
        again.abandon()
        again = counts(tmp_path, gather=gather)
    for batch in batches:
        again.feed(batch)
    again.finish()
    assert in_table(tmp_path) == list(range(1, 17))
    assert not list(tmp_path.rglob("*.dropped"))


def failing(name, **given):
    """An operator that puts aside whatever it gets."""

    def fail(*rows_and_output):
        raise ValueError(name)

    return ps.operator(output={"v": str}, on_error="dead-letter", **given)(fail)


def two_kinds(**options):
    """Two operators put aside rows whose column v is a number here and a text there."""
    graph = Graph("letters")
    graph.source("numbers", {"v": int}).through(failing("no number"), name="numeric").sink("a")
    graph.source("texts", {"v": str}).through(failing("no text"), name="textual").sink("b")
    return start_in_process(graph, options.pop("folder"), groups=8, **options)


KINDS = {"numbers": pa.table({"v": [1]}), "texts": pa.table({"v": ["x"]})}


@pytest.mark.parametrize("gather", [None, "1 hour"])
def test_dead_letters_of_several_kinds_go_into_one_table(tmp_path, gather):
    run = two_kinds(folder=tmp_path, gather=gather, dead_letters=DeltaTable(str(tmp_path / "table")))
    run.feed(KINDS)
    run.feed({"texts": KINDS["texts"]})
    run.finish()
    rows = deltalake.DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    assert sorted((r["operator"], json.loads(r["row"])["v"]) for r in rows) == [
        ("numeric", 1),
        ("textual", "x"),
        ("textual", "x"),
    ]
    assert {r["reason"].rpartition(" ")[2] for r in rows} == {"number", "text"}


def test_dead_letters_with_values_that_python_or_json_cannot_have_go_into_a_table():
    rows = pa.table(
        {
            "reason": ["far"],
            "at": pa.array([253_402_300_800], pa.timestamp("s")),
            "shares": pa.array([[("a", float("inf"))]], pa.map_(pa.string(), pa.float64())),
            "text": pa.array([b"caf\xe9"]).view(pa.string()),  # Spark makes such texts of bytes
        }
    )
    (row,) = _as_text("late", rows)["row"].to_pylist()
    assert json.loads(row) == {"at": "10000-01-01T00:00:00", "shares": [["a", None]], "text": "caf\ufffd"}


def test_a_dead_letter_may_have_a_reason_of_its_own(tmp_path):
    graph = Graph("letters")
    graph.source("claims", {"reason": str}).through(failing("no claim"), name="judge").sink("out")
    run = start_in_process(graph, tmp_path, dead_letters=DeltaTable(str(tmp_path / "table")))
    run.feed({"claims": pa.table({"reason": ["rain"]})})
    run.finish()
    assert [json.loads(row) for row in in_table(tmp_path, "row")] == [{"_reason": "rain"}]
    assert in_table(tmp_path, "reason") == ["ValueError: no claim"]


@pytest.mark.parametrize("gather", [None, "1 hour"])
def test_an_operator_with_two_kinds_of_input_puts_both_aside(tmp_path, gather):
    graph = Graph("letters")
    texts = graph.source("texts", {"k": int, "v": str})
    both = failing("neither", inputs=("left", "right"), keys="k", state={"n": int})
    graph.source("numbers", {"k": int, "v": int}).through(both, texts, name="both").sink("out")
    run = start_in_process(graph, tmp_path, groups=8, gather=gather)
    run.feed({source: table.add_column(0, "k", pa.array([7])) for source, table in KINDS.items()})
    run.finish()
    files = sorted((tmp_path / "dead" / "both").glob("*.parquet"))
    assert sorted(str(v) for f in files for v in pq.read_table(f)["v"].to_pylist()) == ["1", "x"]


def test_dead_letters_of_several_kinds_go_to_one_topic(broker, tmp_path):
    topic = new_topic(broker)
    run = two_kinds(folder=tmp_path, dead_letters=KafkaTopic(broker.servers, topic, key="v"))
    run.feed(KINDS)
    run.finish()
    seen = sorted((row["operator"], row["v"], row["reason"]) for row in received(broker, topic))
    assert seen == [("numeric", 1, "ValueError: no number"), ("textual", "x", "ValueError: no text")]


def test_a_table_in_an_object_store_has_each_row_once_and_partitions(tmp_path, s3):
    address, storage = f"{s3}/table", {"AWS_ALLOW_HTTP": "true"}
    table = DeltaTable(address, partition_by=("third",), storage=storage)
    checkpoint = run(tmp_path, Numbers(3, most=2), table)
    damaged(newest_state(checkpoint))
    run(tmp_path, Numbers(5, most=2), table)
    found = deltalake.DeltaTable(address, storage_options=storage)
    assert sorted(found.to_pyarrow_table()["n"].to_pylist()) == [0, 1, 2, 3, 4]
    assert found.metadata().partition_columns == ["third"]
    wrong = DeltaTable(address, storage={**storage, "AWS_SECRET_ACCESS_KEY": "wrong"})
    with pytest.raises(PenstockError, match=r"^The Delta table 's3://.*' cannot be used: [^\n]*$"):
        run(tmp_path, Numbers(5), wrong)


@pytest.mark.parametrize(
    ("to", "missing", "sentence"),
    [
        (
            KafkaTopic("127.0.0.1:1", "t", patience=1),
            "",
            r"No Kafka broker answers at '127.0.0.1:1' \(.*efused.*",
        ),
        (KafkaTopic("127.0.0.1:1", "t"), "confluent_kafka", "Kafka needs the package confluent-kafka: .*"),
        (DeltaTable("/proc/table"), "deltalake", "Delta tables need the package deltalake: .*"),
    ],
)
def test_what_results_cannot_be_sent_to_is_told_before_anything_is_started(
    tmp_path, monkeypatch, to, missing, sentence
):
    graph = Graph("words")
    graph.source("words", {"word": str}).through(count).sink("counts", to)
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(PenstockError, match=f"^{sentence}$"):
        start_in_process(graph, tmp_path)
    monkeypatch.undo()
    graph = Graph("words")
    graph.source("words", {"word": str}).through(count).sink("counts", DeltaTable(str(tmp_path / "table")))
    run = start_in_process(graph, tmp_path)  # nothing holds the checkpoint
    run.feed({"words": pa.table({"word": ["a"]})})
    run.finish()
    assert in_table(tmp_path) == [1]


def test_a_table_that_cannot_be_used_is_told_in_one_sentence(tmp_path):
    (tmp_path / "table").write_text("a file")
    with pytest.raises(PenstockError, match=r"The Delta table '.*' cannot be used: [^\n]*$"):
        run(tmp_path, Numbers(50))
