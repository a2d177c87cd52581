"""An autoscaler on plain Structured Streaming queries that know nothing of Penstock, on a real standalone cluster."""

import json
import os
import signal
from pathlib import Path

import pytest

import sysfs
from penstock.core.journal import read
from penstock.policies import Mpc
from penstock.spark.actuators import cpu_frequency, cpu_share
from penstock.spark.actuators.processes import command_line, started_at, tree
from waiting import PATIENCE, until

pytestmark = pytest.mark.cluster

ABILITY = cpu_share.probe()

#: A user's program: files in, a slow lookup for each row, files out. Arguments: master, folder.
PLAIN = """
    import sys, time
    from pathlib import Path
    import penstock.spark
    from pyspark.sql.functions import udf
    from penstock.spark.cluster import LocalCluster

    master, folder = sys.argv[1], Path(sys.argv[2])
    options = {**LocalCluster().session_config(), "spark.sql.files.openCostInBytes": "4096"}
    spark = penstock.spark.session(master, config=options)

    @udf("long")
    def lookup(x):
        time.sleep(0.015)  # waits for somebody else, so two cores are enough for four executors
        return 2 * x

    stream = spark.readStream.schema("id long").csv(str(folder / "in")).withColumn("twice", lookup("id"))
    query = (
        stream.writeStream.queryName("plain")
        .trigger(processingTime="0 seconds")  # what a batch costs beside its rows, more on a busy machine, is no load
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "out"))
    )
"""

FOLLOW = (
    PLAIN
    + """
    import json
    from dataclasses import replace
    import penstock
    from penstock.spark.attach.settings import Settings, default_guards
    # Only the load may speak: on a busy machine rows wait and rows are slow for other reasons too.
    quick = replace(default_guards(Settings(executors=(1, 4), period=1.0)), cooldown_shrink=2.0, rollback=None)
    handle = penstock.attach(
        query, executors=(1, 4), cpu=CPU, target=600.0, period=1.0, journal=folder / "journal.jsonl",
        metrics="127.0.0.1:0", page="127.0.0.1:0", guards=quick,
    )
    print(json.dumps({"up": True, "metrics": handle.metrics_address, "page": handle.page_address}), flush=True)
    with penstock.spark.running(spark):
        while not (folder / "stop").exists():
            time.sleep(0.1)
        query.processAllAvailable()
        query.stop()
        handle.stop()
        rows = spark.read.parquet(str(folder / "out"))
        wrong = rows.where("twice != 2 * id").count()
        print(json.dumps({"rows": rows.count(), "distinct": rows.distinct().count(), "wrong": wrong,
                          "overhead": handle.overhead, "steps": handle.steps}), flush=True)
""".replace("CPU", "1.0" if ABILITY.works else "None")
)


class Feeder:
    """Writes small files, four at a time so that up to four tasks can share a batch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows = folder / "in", 0
        self.folder.mkdir()

    def feed(self, rate: float, condition, what: str, child) -> None:
        """Feed so many rows a second until a condition holds."""

        def more() -> bool:
            if not condition():
                self.write(max(1, round(rate / 16)))
            return condition()

        until(more, what, unless=lambda: child.poll() is not None, every=0.25)

    def write(self, count: int) -> None:
        for _ in range(4):
            text = "".join(f"{n}\n" for n in range(self.rows, self.rows + count))
            self.rows += count
            hidden = self.folder / f".{self.rows}"
            hidden.write_text(text)
            hidden.rename(self.folder / f"{self.rows}.csv")


def capacity(folder: Path) -> tuple[float, float]:
    """Executors planned and executors that really work, as the journal has them."""
    path = folder / "journal.jsonl"
    seen = read(path).observations if path.exists() else {}
    if "executors_observed" not in seen:
        return 0, 0
    return seen["executors_planned"][-1], seen["executors_observed"][-1]


def executors_of(cluster) -> list[int]:
    """Processes of executors under this cluster."""
    family = [p for root in cluster.pids for p in tree(root)]
    return [p for p in family if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in command_line(p)]


def groups(pid: int) -> list[Path]:
    """Control groups of a run; others may run beside it."""
    if not ABILITY.works:
        return []
    from penstock.spark.actuators.cgroup import find_hierarchy

    return list(find_hierarchy().base.glob(f"run-{pid}-*"))


def test_executors_follow_the_load_and_the_output_is_complete(drive, cluster, tmp_path):
    feeder = Feeder(tmp_path)
    child = drive(FOLLOW, tmp_path)
    feeder.feed(16, lambda: capacity(tmp_path) == (4, 4), "the cluster gives all it has", child)
    feeder.feed(16, lambda: capacity(tmp_path) == (1, 1), "a light load needs one executor", child)
    feeder.feed(128, lambda: capacity(tmp_path)[1] >= 3, "a heavy load needs more", child)
    if ABILITY.works:
        assert len(groups(child.pid)) == 1
    (tmp_path / "stop").touch()
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    told = json.loads(out.splitlines()[-1])
    assert told["rows"] == told["distinct"] == feeder.rows
    assert told["wrong"] == 0
    assert told["overhead"] < 0.03
    until(lambda: not executors_of(cluster), "the end of every executor")
    assert not groups(child.pid)
    journal = read(tmp_path / "journal.jsonl")
    assert len(journal.reconfigurations["time"]) >= 3 + 2
    assert all(journal.decisions["reason"])


BY_HAND = (
    PLAIN
    + """
    import json
    import penstock
    seen = []
    with penstock.spark.running(spark):
        handle = penstock.attach(query, executors=(1, 2), period=0.5, journal=folder / "journal.jsonl")
        handle.listen(seen.append)
        handle.pause()
        refused = ""
        try:
            handle.rescale(executors=3)
        except penstock.PenstockError as error:
            refused = str(error)

        def reached(count):
            handle.rescale(executors=count)
            end = time.time() + 150
            while time.time() < end and handle.progress.get("executors") != count:
                time.sleep(0.1)
            return handle.progress["executors"]

        counts = [reached(1), reached(2)]
        query.stop()
        handle.stop()
        print(json.dumps({"refused": refused, "counts": counts, "seen": len(seen)}), flush=True)
"""
)


def test_executors_can_be_asked_for_by_hand_while_the_policy_is_paused(drive, tmp_path):
    Feeder(tmp_path).write(10)
    child = drive(BY_HAND, tmp_path)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    told = json.loads(out.splitlines()[-1])
    assert "may have 1 to 2 executors, not 3" in told["refused"]
    assert told["counts"] == [1, 2]
    assert told["seen"] >= 3
    assert "by hand" in set(read(tmp_path / "journal.jsonl").reconfigurations["source"])


AUTOPILOT = (
    PLAIN
    + """
    import json
    import penstock
    from penstock.policies import Autopilot
    from penstock.spark.actuators.processes import command_line, tree
    policy = Autopilot(target=600.0, limits=(1, 2), learn=4.0)
    with penstock.spark.running(spark):
        handle = penstock.attach(
            query, policy=policy, executors=(1, 2), target=600.0, period=1.0, journal=folder / "journal.jsonl",
        )
        print(json.dumps({"up": True}), flush=True)
        while not (folder / "stop").exists():
            time.sleep(0.1)
        import os
        mine = sum("penstock.policies.own_process" in command_line(p) for p in tree(os.getpid()))
        query.stop()
        handle.stop()
        left = sum("penstock.policies.own_process" in command_line(p) for p in tree(os.getpid()))
        print(json.dumps({"mine": mine, "left": left, "problem": handle.problem}), flush=True)
"""
)


def test_autopilot_leads_by_rehearsals_in_a_process_of_its_own(drive, tmp_path):
    feeder = Feeder(tmp_path)
    child = drive(AUTOPILOT, tmp_path)
    feeder.feed(16, lambda: capacity(tmp_path) == (1, 1), "a light load needs one executor", child)
    (tmp_path / "stop").touch()
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    assert json.loads(out.splitlines()[-1]) == {"mine": 1, "left": 0, "problem": ""}
    assert max(read(tmp_path / "journal.jsonl").observations["thinking"]) > 0
    reasons = list(read(tmp_path / "journal.jsonl").decisions["reason"])
    assert any("core-seconds a minute" in r for r in reasons)
    assert any("the most executors" in r for r in reasons)


AT_A_FREQUENCY = (
    PLAIN
    + """
    import json
    import penstock
    from penstock.core.capacity import Knob
    from penstock.core.decision import Change
    from penstock.policies import Static
    from penstock.spark.actuators import cpu_frequency, energy
    cpu_frequency.ROOT, energy.ROOT = folder / "cpu", folder / "powercap"
    with penstock.spark.running(spark):
        handle = penstock.attach(
            query, policy=Static(settings=(Change(Knob.FREQUENCY, "plain", 1.2),)), period=1.0,
            journal=folder / "journal.jsonl",
        )
        while not (folder / "stop").exists():
            time.sleep(0.1)
        query.stop()
        handle.stop()
        print(json.dumps({"problem": handle.problem}), flush=True)
"""
)


def test_a_frequency_is_set_where_the_executors_run_on_this_machine_and_given_back_at_the_end(
    drive, tmp_path
):
    machine = sysfs.cpufreq(tmp_path / "cpu")
    sysfs.powercap(tmp_path / "powercap")
    feeder = Feeder(tmp_path)
    child = drive(AT_A_FREQUENCY, tmp_path)
    feeder.feed(16, lambda: sysfs.cap(machine) == "1200000", "the cap of 1.2 GHz", child)
    (tmp_path / "stop").touch()
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    assert json.loads(out.splitlines()[-1]) == {"problem": ""}
    assert sysfs.cap(machine) == "1900000"
    assert "frequency" in set(read(tmp_path / "journal.jsonl").changes["knob"])


@pytest.mark.kill
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind_when_the_driver_is_ended(drive, cluster, tmp_path, how):
    Feeder(tmp_path).write(10)
    child = drive(FOLLOW, tmp_path)
    assert json.loads(child.stdout.readline())["up"]
    until(lambda: capacity(tmp_path)[1] >= 1, "an executor", unless=lambda: child.poll() is not None)
    family = executors_of(cluster)
    assert family
    if ABILITY.works:
        assert groups(child.pid)
    os.kill(child.pid, how)
    child.communicate(timeout=PATIENCE)
    until(lambda: not [p for p in family if started_at(p) is not None], "the end of every executor")
    if how == signal.SIGKILL and ABILITY.works:
        cpu_share.sweep()  # what the next start does: a killed process cannot clean up
    assert not groups(child.pid)


def test_an_attached_query_goes_on_untouched_where_nothing_can_be_scaled(spark, tmp_path):
    import penstock
    from penstock.core.journal import MemoryJournal

    told, journal = [], MemoryJournal()
    query = spark.readStream.format("rate").load().writeStream.format("noop").queryName("local").start()
    try:
        handle = penstock.attach(query, period=0.5, journal=journal, notify=told.append, prefer="latency")
        until(lambda: handle.steps >= 3, "three steps")
        assert "local mode" in handle.problem
        assert told == [f"Nothing will be changed: {handle.problem}"]
        assert told[0] in journal.texts()
        assert query.isActive
        assert (handle.settings.target, handle.settings.late) == (3.0, 0.01)
    finally:
        query.stop()
        handle.stop()
    assert not handle.active


class CannotStart:
    name = "CannotStart"

    def start(self):
        raise RuntimeError("not today")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"executors": (4, 2)}, "contradict"),
        ({"executors": 4}, "must be two whole numbers, not 4"),
        ({"target": "5"}, "must be a number above 0 seconds, not '5'"),
        ({"prefer": ["latency"]}, "attach cannot use these arguments (TypeError"),
        ({"cpu": (1.0, 0.5)}, "ascend"),
        ({"target": -1.0}, "above 0 seconds"),
        ({"policy": "thresold"}, "did you mean 'Threshold'"),
        ({"policy": CannotStart()}, "could not start: RuntimeError: not today"),
        ({"policy": Mpc(cost="power", speeds=(1.2, 2.0))}, "this machine has no frequencies to set"),
    ],
)
def test_wrong_arguments_are_told_and_do_not_touch_the_query(spark, monkeypatch, tmp_path, arguments, words):
    import penstock
    from penstock.core.journal import MemoryJournal

    monkeypatch.setattr(cpu_frequency, "ROOT", tmp_path)  # as on most virtual machines
    told, journal = [], MemoryJournal()
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        handle = penstock.attach(query, journal=journal, period=0.5, notify=told.append, **arguments)
        assert words in told[0]
        assert words in journal.texts()[0]
        assert query.isActive
        handle.stop()
    finally:
        query.stop()


def test_attaching_twice_is_refused_until_the_first_has_ended(spark, tmp_path, monkeypatch):
    import penstock
    from penstock.core.journal import MemoryJournal

    told = []
    monkeypatch.chdir(tmp_path)
    query = spark.readStream.format("rate").load().writeStream.format("noop").queryName("../../twice").start()
    words = {"executors": None, "period": 0.5, "notify": told.append}
    try:
        first = penstock.attach(query, **words)
        second = penstock.attach(query, journal=MemoryJournal(), **words)
        assert "has an autoscaler already" in second.problem
        assert not first.problem
        assert second.settings.dry_run
        second.stop()
        first.stop()
        third = penstock.attach(query, journal=MemoryJournal(), **words)
        assert not third.problem
        third.stop()
    finally:
        query.stop()
    # A name that somebody else gave is no path either.
    journal = Path(first.journal).resolve()
    assert journal.parent == (tmp_path / "penstock-runs" / "autoscale").resolve()


class Rival:
    """Another autoscaler of the same application."""

    active = True

    def __init__(self, needed):
        self.needed = needed

    def step_aside(self):
        return not self.needed


@pytest.mark.parametrize("needed", [True, False])
def test_of_the_autoscalers_of_one_application_one_may_scale_and_the_others_observe(
    spark, monkeypatch, needed
):
    import penstock
    from penstock.core.journal import MemoryJournal
    from penstock.spark.attach import autoscaler as module

    rival, told = Rival(needed), []
    monkeypatch.setitem(module._scaling, spark.sparkContext.applicationId, rival)
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        for words in ({"executors": None, "cpu": 0.5}, {"executors": (1, 4)}):
            with penstock.attach(query, journal=MemoryJournal(), notify=told.append, **words) as handle:
                assert ("another autoscaler" in handle.problem) == needed
                assert "penstock autoscale" in handle.problem or not needed
                assert handle.settings.scales != needed
        del told[:]
        for words in ({"executors": None}, {"executors": (1, 4), "cpu": 0.5, "dry_run": True}):
            with penstock.attach(query, journal=MemoryJournal(), notify=told.append, **words) as handle:
                assert "another autoscaler" not in handle.problem
                assert not handle.scales
    finally:
        query.stop()


def test_an_autoscaler_steps_aside_once_only_a_restart_of_its_query_is_waited_for(spark):
    import penstock
    from penstock.core.journal import MemoryJournal
    from penstock.spark.attach.autoscaler import scaler_of

    words = {"executors": None, "cpu": 0.5, "linger": PATIENCE, "notify": lambda text: None}
    queries = [spark.readStream.format("rate").load().writeStream.format("noop").start() for _ in range(2)]
    try:
        with penstock.attach(queries[0], journal=MemoryJournal(), **words) as first:
            assert scaler_of(spark) is first
            with penstock.attach(queries[1], journal=MemoryJournal(), **words) as second:
                assert "another autoscaler" in second.problem
            queries[0].stop()
            with penstock.attach(queries[1], journal=MemoryJournal(), **words) as third:
                assert not third.problem
                assert scaler_of(spark) is third
                assert not first.active
        assert scaler_of(spark) is None
    finally:
        for query in queries:
            query.stop()


def test_a_query_that_ended_before_it_was_attached_is_not_waited_for(spark):
    import penstock
    from penstock.core.journal import MemoryJournal

    told, journal = [], MemoryJournal()
    query = spark.readStream.format("rate").load().writeStream.format("noop").queryName("over").start()
    query.stop()
    handle = penstock.attach(query, executors=None, linger=0.5, journal=journal, notify=told.append)
    assert handle.await_termination(PATIENCE)
    assert told == ["No query has run for 0.5 s: the autoscaler leaves."]


def test_queries_of_one_name_come_and_go_under_one_autoscaler(spark):
    from penstock.core.journal import MemoryJournal
    from penstock.spark.attach.autoscaler import Autoscaler
    from penstock.spark.attach.settings import Settings

    told, journal = [], MemoryJournal()
    settings = Settings(executors=None, period=0.2)
    handle = Autoscaler(
        spark, lambda id_, name: name == "daily", settings, None, journal=journal, notify=told.append
    )
    stream = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    with handle.start():
        for _ in range(2):
            query = stream.writeStream.format("noop").queryName("daily").start()
            before = len(journal.tables().stages.get("tuples_in", ()))
            until(lambda seen=before: len(journal.tables().stages.get("tuples_in", ())) > seen + 3, "looks")
            query.stop()
        assert handle.active
        assert [q.name for q in handle._watcher.queries.values()] == ["daily"]
    assert not told


class Raising:
    name = "Raising"

    def start(self):
        return None

    def step(self, state, observation):
        raise RuntimeError("no idea")


def test_a_policy_that_raises_is_told_once_and_recorded_every_time(spark):
    import penstock
    from penstock.core.journal import MemoryJournal

    told, journal = [], MemoryJournal()
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        with penstock.attach(
            query, Raising(), executors=None, period=0.2, journal=journal, notify=told.append
        ) as handle:
            until(lambda: handle.steps >= 3, "three steps")
            assert query.isActive
    finally:
        query.stop()
    assert len([t for t in told if "no idea" in t]) == 1
    assert len([t for t in journal.texts() if "no idea" in t]) >= 3


def test_rows_of_all_batches_are_recorded_while_a_policy_hangs(spark):
    import threading

    import penstock
    from penstock.core.journal import MemoryJournal

    class Hangs(Raising):
        def step(self, state, observation):
            threading.Event().wait()

    journal = MemoryJournal()
    stream = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    query = stream.writeStream.format("noop").trigger(processingTime="300 milliseconds").start()
    try:
        with penstock.attach(
            query, Hangs(), executors=None, period=0.2, journal=journal, notify=lambda text: None
        ) as handle:
            seen = lambda: [o.stages[0].tuples_in for o in journal.tables().replay() if o.stages]  # noqa: E731
            until(lambda: sum(n > 0 for n in seen()) >= 3, "three observations with rows")
            assert handle.steps == 0
            assert query.isActive
    finally:
        query.stop()


def test_it_follows_a_query_through_a_restart(spark, tmp_path):
    import penstock
    from penstock.core.journal import MemoryJournal

    def start():
        stream = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        return writer.trigger(processingTime="500 milliseconds").start()

    query = start()
    handle = penstock.attach(
        query, executors=None, period=0.5, linger=PATIENCE, journal=MemoryJournal(), notify=lambda text: None
    )
    until(lambda: handle.last is not None and handle.last.observation.stages[0].tuples_in > 0, "rows seen")
    query.stop()
    query = start()
    before = handle.steps
    until(lambda: handle.steps > before + 2, "steps after the restart")
    assert handle.active
    assert handle._watcher.queries[str(query.id)].restarts == 1
    query.stop()
    handle.stop()
    assert not handle.active


def test_a_query_that_fails_is_recorded(spark, tmp_path):
    from pyspark.sql.functions import expr

    import penstock
    from penstock.core.journal import MemoryJournal

    journal = MemoryJournal()
    stream = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    bad = stream.select(expr("raise_error('broken on purpose')"))
    query = bad.writeStream.format("noop").queryName("bad").start()
    handle = penstock.attach(
        query, executors=None, period=0.3, linger=0.5, journal=journal, notify=lambda text: None
    )
    assert handle.await_termination(PATIENCE)
    assert any("The query bad failed" in text for text in journal.texts())


def test_a_paused_or_dry_run_autoscaler_only_records(spark):
    import penstock
    from penstock.core.capacity import Knob
    from penstock.core.decision import Change
    from penstock.core.journal import MemoryJournal
    from penstock.policies import Static

    journal = MemoryJournal()
    query = spark.readStream.format("rate").load().writeStream.format("noop").queryName("dry").start()
    wish = Static(settings=(Change(Knob.WORKERS, "dry", 3),))
    try:
        with penstock.attach(
            query, wish, executors=None, dry_run=True, period=0.2, journal=journal, notify=lambda text: None
        ) as handle:
            until(lambda: handle.steps >= 2, "two steps")
    finally:
        query.stop()
    records = journal.tables()
    assert set(records.decisions["mode"]) == {"dry-run"}
    assert "dry workers 3" in set(records.decisions["changes"])
    assert not records.reconfigurations
