"""The code of README and site runs: Python blocks one after another, commands as they stand or as far as parsing them."""

import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.java_gateway import JavaObject
from typer.testing import CliRunner

import penstock as ps
from page.journals import HEADER, write
from page_code import PAGES, ROOT, blocks, inline_commands, parsed, unknown_options
from paths_in_code import in_folder
from penstock.cli import app
from penstock.core.journal import FileJournal
from penstock.testing import ScriptedPlant
from waiting import until

BLOCKS = [block for page in PAGES for block in blocks(page)]
SCHEMA = "event_time timestamp, price double, rating double"

#: Pages that are followed from their first line on: nothing is there but what they make themselves.
TUTORIAL = "docs/tutorial.md"
ALONE = ("README.md", TUTORIAL)

#: Pages whose commands are really run; those of the others are taken apart by the command line only.
RUN = [p for p in PAGES if p in ALONE or p.startswith("docs/how-to/")]
QUICK = (["trace", "generate"], ["trace", "describe"], ["simulate"], ["report"])

#: Pages on which a run must have made a batch before the next block is looked at.
WAITS = (*ALONE, "docs/engines.md")


def python_of(page):
    return [b for b in blocks(page, "python") if not b.unrun]


def needs_spark(page):
    return bool(re.search(r"\bspark\b|\.start\(", "".join(b.code for b in python_of(page))))


def pages(kind):
    found = [p for p in PAGES if any(not b.kafka for b in python_of(p))]
    return [p for p in found if needs_spark(p) == (kind == "spark")]


def test_every_block_is_run_or_says_why_not():
    strange = [
        f"{b.page}:{b.line} {b.language}"
        for b in BLOCKS
        if b.language not in ("python", "sh", "text", "yaml")
    ]
    assert strange == [], "text is for what is no code"
    hidden = [
        f"{b.page}:{b.line}"
        for b in BLOCKS
        if b.language == "text" and re.search(r"^(penstock|import|from) ", b.code)
    ]
    assert hidden == []
    unrun = [b for b in BLOCKS if b.unrun]
    assert len(unrun) <= 6, [f"{b.page}:{b.line} {b.unrun}" for b in unrun]
    assert len([b for b in BLOCKS if b.language == "python"]) > 60


def table(folder, name, **columns):
    (folder / name).parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / name)


def more_offers(folder, at):
    """Two more seconds of offers."""
    rng = np.random.default_rng(1)
    begin = 1_700_000_000_000_000 + at * 2_000_000
    times = pa.array((np.arange(2_000) * 1_000 + begin).tolist(), pa.timestamp("us", "UTC"))
    rating = rng.integers(1, 6, 2_000).astype(float)
    table(folder, f"offers/{at}.parquet", event_time=times, price=rng.random(2_000), rating=rating)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the files that pages speak of."""
    monkeypatch.chdir(tmp_path)
    more_offers(tmp_path, 0)
    now = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    table(tmp_path, "calls/0.parquet", at=now, service=["a"], user=["ann"], seconds=[0.1])
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "0.json").write_text('{"customer": "ann", "price": 5.0, "at": 0.0}\n')
    data = ROOT / "tests" / "data"
    for name in ("trace.csv.gz", "bc_paug89.csv.gz"):
        shutil.copy(data / "bc_paug89.csv.gz", tmp_path / name)
    arrival = np.cumsum(np.random.default_rng(2).exponential(0.01, 3_000))
    for name in ("recorded.parquet", "requests.parquet", "my_trace.parquet"):
        table(tmp_path, name, arrival=arrival)
    (tmp_path / "ckpt").mkdir()
    for name in ("run.jsonl", "ckpt/journal.jsonl"):
        with FileJournal(tmp_path / name, HEADER) as journal:
            write(journal, 30)
    return tmp_path


def given(page, spark=None):
    """What a page takes for granted, as its introduction says."""
    if page in ALONE:
        return {"__name__": "a page"}
    known = {
        "__name__": "a page", "ps": ps, "penstock": ps, "np": np, "pa": pa,
        "gaps": np.random.default_rng(3).exponential(0.01, 2_000),
        "plant": ScriptedPlant([]),
    }  # fmt: skip
    if spark is not None:
        known["spark"] = spark
        known["offers"] = spark.readStream.schema(SCHEMA).parquet(f"{Path.cwd()}/offers/")
        known["stream"] = spark.readStream.format("rate").load()
        best = ps.skyline_of(ps.minimize("price"), ps.maximize("rating"))
        known["query"] = ps.PreferenceQuery(
            best, time="event_time", window="1 second", slide="200 milliseconds"
        )
        known["static_frame"] = spark.read.schema(SCHEMA).parquet(f"{Path.cwd()}/offers/")
        known["hotels"] = known["static_frame"].toPandas()
    return known


def run_block(block, folder, names, servers=""):
    """Run one block; it waits for no end that does not come, and takes no port that may be taken."""
    code = in_folder(block.code, folder).replace(":8765", ":0").replace("127.0.0.1:9092", servers)
    if "available_now" not in code:
        code = code.replace(".await_termination()", ".await_termination(0.1)")
    exec(compile("\n" * (block.line - 1) + code, block.page, "exec"), names)


def active(names):
    """The runs that a page has started and that go on."""
    # An object of Java's has whatever it is asked for.
    found = [v for v in names.values() if hasattr(v, "page_address") and not isinstance(v, JavaObject)]
    return [run for run in found if (run.is_active if hasattr(run, "is_active") else run.active)]


def await_batches(names):
    for run in active(names):
        until(lambda run=run: run.progress, f"a batch of {run}", unless=lambda: not active(names))


def end(names, spark):
    for run in active(names):
        run.stop()
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize("page", pages("plain"))
def test_the_python_blocks_of_a_page_run(page, folder):
    names = given(page)
    for block in python_of(page):
        run_block(block, folder, names)


@pytest.mark.parametrize("page", pages("spark"))
def test_the_python_blocks_of_a_page_run_on_spark(page, spark, folder):
    names = given(page, spark)
    if page in ALONE:
        shutil.rmtree(folder / "offers")
    try:
        for at, block in enumerate(b for b in python_of(page) if not b.kafka):
            if page not in ALONE:
                more_offers(folder, at)
            run_block(block, folder, names)
            if page in WAITS:
                await_batches(names)
                if page != "docs/engines.md":
                    end(names, spark)  # the next block has all slots of the session
    finally:
        end(names, spark)
    if page in ALONE:
        found = [pq.read_schema(f).names for f in (folder / "results").rglob("*.parquet")]
        assert any("window_start" in columns for columns in found)


def test_the_blocks_with_a_broker_run(spark, broker, folder):
    from confluent_kafka import KafkaException

    for topic in ("offers", "best-offers", "bad-offers"):
        with suppress(KafkaException):
            broker.create(topic)
    with_broker = [b for page in PAGES for b in python_of(page) if b.kafka]
    assert {b.page for b in with_broker} >= {"README.md", TUTORIAL, "docs/kafka.md"}
    # The tutorial's go on from the steps before them, those of other pages stand by themselves.
    for steps in [python_of(TUTORIAL), *([b] for b in with_broker if b.page != TUTORIAL)]:
        page = steps[0].page
        names = given(page, spark)
        place = folder / page.replace("/", "-")
        place.mkdir(exist_ok=True)
        try:
            for block in steps:
                run_block(block, place, names, broker.servers)
            if page == TUTORIAL:
                await_batches(names)
        finally:
            end(names, spark)


def test_every_command_is_one_that_there_is():
    """What begins with ``penstock`` is taken apart by the command line itself, the rest is looked up."""
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    seen = 0
    for block in (b for b in BLOCKS if b.language == "sh"):
        for words in block.lines():
            where, seen = f"{block.page}:{block.line} {words}", seen + 1
            if words[0] == "penstock":
                parsed(words)
            elif words[0] == "make":
                assert words[1] in targets, where
            elif words[:2] == ["pip", "install"]:
                assert re.fullmatch(rf"penstock(\[({'|'.join(extras)})\])?", words[2]), where
            else:
                assert words[0] in ("git", "cd", "ssh"), where
    assert seen > 30
    for page in PAGES:
        for words in inline_commands(page):
            assert unknown_options(words) == [], (page, words)


def test_a_command_that_is_not_there_is_found():
    with pytest.raises(Exception, match="No such option: --nonsense"):
        parsed(["penstock", "simulate", "--nonsense"])
    with pytest.raises(ps.PenstockError, match="Unknown option of wordcount"):
        parsed(["penstock", "run", "wordcount", "--nonsense", "1"])
    assert unknown_options(["penstock", "report", "FILE", "--htlm", "x"]) == ["--htlm"]


@pytest.mark.parametrize("page", [p for p in RUN if any(b.lines() for b in blocks(p, "sh"))])
def test_the_quick_commands_of_a_page_run(page, folder):
    for block in blocks(page, "sh"):
        for words in block.lines():
            if words[0] == "penstock" and not block.unrun and any(words[1 : 1 + len(q)] == q for q in QUICK):
                result = CliRunner().invoke(app, words[1:])
                assert result.exit_code == 0, (words, result.output)


def test_the_reference_is_made_from_the_code(tmp_path):
    subprocess.run([sys.executable, str(ROOT / "scripts" / "make-reference"), str(tmp_path)], check=True)
    commands, names = (tmp_path / "commands.md").read_text(), (tmp_path / "python.md").read_text()
    assert "## `penstock watch`" in commands
    assert "## `penstock run demo`" in commands
    assert "`--page`" in commands
    assert "### `PreferenceQuery`" in names
    assert "#### `PreferenceQuery.start`" in names
