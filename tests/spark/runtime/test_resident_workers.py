"""Resident workers as real processes, without Spark: the exchange, its secret, and what happens when they die."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

from penstock.core.errors import PenstockError
from penstock.spark.runtime.channel import Channel, PeerLostError, StrangerError, listener
from penstock.spark.runtime.door import Door
from penstock.spark.runtime.engine import BatchRows, JobsEngine, Lane, ResidentEngine, Stage, with_retries
from penstock.spark.runtime.orders import Members
from penstock.spark.runtime.resident import Peers
from penstock.spark.runtime.task import partition_id
from penstock.spark.runtime.workers import WorkerLostError, Workers
from penstock.testing.frames import InProcessSession
from waiting import until

SCHEMA = StructType().add("worker", IntegerType()).add("key", LongType()).add("count", LongType())
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["penstock.spark.runtime.resident"])


class Processes:
    """Launches workers as processes of their own."""

    def __init__(self):
        self.started = []

    def __call__(self, task):
        process = FORKS.Process(target=task, daemon=True)
        process.start()
        self.started.append(process)
        process.join()
        if process.exitcode:
            raise RuntimeError(f"killed by {-process.exitcode}")


@pytest.fixture
def processes():
    launched = Processes()
    yield launched
    for process in launched.started:
        process.kill()
        process.join()


@pytest.fixture
def engine(processes):
    made = ResidentEngine(Workers(processes), 3, patience=300.0)
    assert made.workers.wait_for(3, 300.0) == 3
    yield made
    made.close()


class Keys:
    """Rows of one partition: some keys."""

    def __init__(self, keys):
        self.keys = keys

    def __call__(self):
        yield pa.record_batch({"key": pa.array(self.keys, pa.int64())})


def send(batches):
    """Each key to the task that its value names; the row says where it came from."""
    for batch in batches:
        keys = batch.column("key").to_numpy()
        yield pa.record_batch(
            {
                "worker": pa.array(keys % 5, pa.int32()),
                "key": pa.array(keys),
                "count": pa.array(np.ones(len(keys), dtype=np.int64)),
            }
        )


def count(batches):
    """Count each key, and pass it on to the task before."""
    seen = Counter()
    for batch in batches:
        for key, n in zip(batch.column("key").to_pylist(), batch.column("count").to_pylist(), strict=True):
            assert key % 5 == partition_id()
            seen[key] += n
    if seen:
        keys = sorted(seen)
        yield pa.record_batch(
            {
                "worker": pa.array([k % 3 for k in keys], pa.int32()),
                "key": pa.array(keys, pa.int64()),
                "count": pa.array([seen[k] for k in keys], pa.int64()),
            }
        )


def same(batches):
    yield from batches


STAGES = [Stage(send, SCHEMA), Stage(count, SCHEMA, 5), Stage(same, SCHEMA, 3)]


def counted(batches):
    return {
        k: n
        for b in batches
        for k, n in zip(b.column("key").to_pylist(), b.column("count").to_pylist(), strict=True)
    }


def test_stages_give_what_they_give_as_spark_jobs(engine):
    rng = np.random.default_rng(1)
    for partitions in (1, 2, 7):
        keys = [rng.integers(0, 40, 500).tolist() for _ in range(partitions)]
        rows = BatchRows(readings=[Keys(k) for k in keys], schema=SCHEMA)
        expected = dict(Counter(k for part in keys for k in part))
        assert counted(engine.run(rows, STAGES)) == expected
        assert counted(JobsEngine(InProcessSession()).run(rows, STAGES)) == expected


def numbers(batches):
    for batch in batches:
        ids = batch.column("id")
        yield pa.record_batch({"worker": pa.array([0] * len(ids), pa.int32()), "key": ids, "count": ids})


@pytest.mark.parametrize(("pieces", "most"), [(1, 0), (8, 0), (8, 3)])
def test_numbered_pieces_are_each_done_once(engine, pieces, most):
    done = counted(engine.run(BatchRows(numbers=pieces, most=most), [Stage(numbers, SCHEMA)]))
    assert sorted(done) == list(range(pieces))


def test_workers_come_and_go_between_jobs_and_every_job_is_whole(engine):
    rows = BatchRows(readings=[Keys(list(range(60)))], schema=SCHEMA)
    for planned in (1, 4, 2, 5, 3):
        engine.resize(planned)
        assert engine.workers.planned == planned
        assert counted(engine.run(rows, STAGES)) == dict.fromkeys(range(60), 1)
        until(lambda n=planned: engine.workers.observed == n, "all planned workers are there")
        assert engine.workers.requested == 0
        assert counted(engine.run(rows, STAGES)) == dict.fromkeys(range(60), 1)


class DiesOnce:
    """A stage whose task 1 kills its process unless a file says that it did already."""

    def __init__(self, path):
        self.path = str(path)

    def __call__(self, batches):
        if partition_id() == 1 and not os.path.exists(self.path):
            with open(self.path, "w") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        yield from count(batches)


def test_a_worker_that_is_killed_is_replaced_and_the_job_can_be_run_again(engine, tmp_path):
    rows = BatchRows(readings=[Keys(list(range(60))), Keys(list(range(30)))], schema=SCHEMA)
    stages = [Stage(send, SCHEMA), Stage(DiesOnce(tmp_path / "died"), SCHEMA, 5), Stage(same, SCHEMA, 3)]
    with pytest.raises(WorkerLostError):
        engine.run(rows, stages)
    expected = dict(Counter([*range(60), *range(30)]))
    told = []
    assert counted(with_retries(lambda: engine.run(rows, stages), notify=told.append)) == expected
    until(lambda: engine.workers.observed == 3, "the worker is replaced")
    assert counted(engine.run(rows, stages)) == expected


class Raises:
    def __init__(self, error):
        self.error = error

    def __call__(self, batches):
        if partition_id() == 0:
            raise self.error
        yield from batches


def test_what_a_stage_raises_reaches_the_driver_and_the_workers_go_on(engine):
    rows = BatchRows(readings=[Keys([1, 2, 3])], schema=SCHEMA)
    with pytest.raises(PenstockError, match=r"^One sentence$"):
        engine.run(rows, [Stage(send, SCHEMA), Stage(Raises(PenstockError("One sentence")), SCHEMA, 5)])
    with pytest.raises(RuntimeError, match="ValueError: no such thing"):
        engine.run(rows, [Stage(Raises(ValueError("no such thing")), SCHEMA)])
    assert counted(engine.run(rows, STAGES)) == {1: 1, 2: 1, 3: 1}


def only_here(process, error):
    if os.getpid() != process:
        raise error
    return print


class OnlyHere:
    """What no other process can unpickle."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        return only_here, (os.getpid(), self.error)

    def __call__(self, batches=()):
        yield from batches


MISSING = ModuleNotFoundError("No module named 'mine'", name="mine")


def within_seconds(processes, run):
    """What a job gives or raises; where it would wait for ever its workers are ended, and the test fails."""
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(run)
        try:
            return job.result(120.0)
        finally:
            for process in processes.started if not job.done() else ():
                process.kill()


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "in a stage"])
def test_what_a_worker_cannot_unpickle_fails_the_job_with_a_sentence_and_the_workers_go_on(
    engine, processes, kept
):
    rows, bad = BatchRows(readings=[Keys([1, 2, 3])], schema=SCHEMA), OnlyHere(MISSING)
    if kept:
        engine.workers.keep(bad)
    missing = BatchRows(readings=[bad], schema=SCHEMA), STAGES
    if not kept:
        missing = rows, [Stage(send, SCHEMA), Stage(bad, SCHEMA, 5)]
    for _ in range(2):
        with pytest.raises(PenstockError, match=r"cannot import the module 'mine' .*--py-files"):
            within_seconds(processes, lambda: engine.run(*missing))
    other = [Stage(OnlyHere(ValueError("not here")), SCHEMA)]
    with pytest.raises(RuntimeError, match="ValueError: not here"):
        within_seconds(processes, lambda: engine.run(rows, other))
    assert counted(within_seconds(processes, lambda: engine.run(rows, STAGES))) == {1: 1, 2: 1, 3: 1}
    assert len(processes.started) == 3, "no worker was lost"


def test_a_stage_that_ends_its_process_politely_fails_its_job_only(engine, processes):
    rows = BatchRows(readings=[Keys([1, 2, 3])], schema=SCHEMA)
    with pytest.raises(RuntimeError, match="SystemExit: enough"):
        within_seconds(processes, lambda: engine.run(rows, [Stage(Raises(SystemExit("enough")), SCHEMA)]))
    assert counted(within_seconds(processes, lambda: engine.run(rows, STAGES))) == {1: 1, 2: 1, 3: 1}
    assert len(processes.started) == 3, "no worker was lost"


@pytest.mark.parametrize("side", ["near", "far"])
def test_a_connection_between_workers_that_broke_is_made_anew(side):
    came = []
    door = Door("127.0.0.1", b"secret", came.append).open()
    peers = Peers(b"secret")
    try:
        peers.know(Members({1: door.address}))
        first = peers.to(1)
        assert peers.to(1) is first
        until(lambda: came, "the other end is there")
        (first if side == "near" else came[0])._socket.shutdown(socket.SHUT_RDWR)
        until(lambda: peers.to(1) is not first, "there is another connection", seconds=30.0)
        peers.to(1).send_end(5, 1, 0)
        until(lambda: len(came) == 2, "it is there")
        assert came[1].receive(orders=False).job == 5
    finally:
        peers.close()
        door.close()


class WaitsFor:
    """A stage that says that it has begun, and goes on once a file is there."""

    def __init__(self, folder):
        self.begun, self.go = str(folder / "begun"), str(folder / "go")

    def __call__(self, batches):
        open(self.begun, "w").close()
        until(lambda: os.path.exists(self.go), "the stage may go on")
        yield from send(batches)


def test_a_failure_in_one_lane_leaves_the_job_in_the_other_alone(processes, tmp_path):
    engine = ResidentEngine(Workers(processes), 2, patience=300.0)
    assert engine.workers.wait_for(2, 300.0) == 2
    rows, stage = BatchRows(readings=[Keys(list(range(60)))], schema=SCHEMA), WaitsFor(tmp_path)
    try:
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(engine.run, rows, [Stage(stage, SCHEMA), *STAGES[1:]], Lane(0, (1, 1)))
            until(lambda: os.path.exists(stage.begun), "the first job has begun")
            with pytest.raises(PenstockError, match=r"^One sentence$"):
                engine.run(rows, [Stage(Raises(PenstockError("One sentence")), SCHEMA)], Lane(1, (1, 1)))
            open(stage.go, "w").close()
            try:
                assert counted(first.result(30.0)) == dict.fromkeys(range(60), 1)
            finally:
                for process in processes.started:  # or a job that hangs would keep the pool for ever
                    process.kill()
    finally:
        engine.close()


def test_objects_that_are_kept_travel_once_and_reach_workers_that_come_later(engine):
    reading = Keys(list(range(50_000)))
    engine.workers.keep(reading)
    rows = BatchRows(readings=[reading], schema=SCHEMA)
    first = len(engine.workers._keeping.dumps(rows))
    assert first < 2_000 < len(pickle.dumps(rows))
    assert sum(counted(engine.run(rows, STAGES)).values()) == 50_000
    engine.resize(4)
    until(lambda: engine.workers.observed == 4, "the fourth worker is there")
    assert sum(counted(engine.run(rows, STAGES)).values()) == 50_000


def test_a_peer_without_the_secret_is_turned_away_before_anything_is_read(processes):
    told = []
    workers = Workers(processes, notify=told.append)
    engine = ResidentEngine(workers, 1, patience=300.0)
    try:
        with pytest.raises((StrangerError, PeerLostError)):
            Channel.connect(workers._address, b"another secret")
        until(lambda: told, "the stranger is reported")
        assert "secret" in told[0]
        # One that never answers the challenge, and one that sends a pickle at once.
        with (
            socket.create_connection(workers._address) as mute,
            socket.create_connection(workers._address) as rude,
        ):
            rude.sendall(pickle.dumps(Raises) * 10)
            rows = BatchRows(readings=[Keys([7])], schema=SCHEMA)
            assert counted(engine.run(rows, STAGES)) == {7: 1}
            mute.close()
    finally:
        engine.close()


def test_nothing_stays_behind_when_the_engine_is_closed(processes):
    engine = ResidentEngine(Workers(processes), 2, patience=300.0)
    assert engine.workers.wait_for(2, 300.0) == 2
    engine.close()
    until(lambda: not any(p.is_alive() for p in processes.started), "all processes have ended")
    assert [p.exitcode for p in processes.started] == [0] * len(processes.started)
    with contextlib.suppress(OSError), socket.create_connection(engine.workers._address, 1):
        pytest.fail("the driver still listens")


def test_workers_end_when_their_driver_is_gone(processes):
    workers = Workers(processes)
    workers.plan(2)
    assert workers.wait_for(2, 300.0) == 2
    for connected in list(workers._connected.values()):
        connected.channel.close()
    with workers.changed:
        workers._closed = True
    until(lambda: not any(p.is_alive() for p in processes.started), "all processes have ended")


def test_no_worker_at_all_is_one_sentence():
    forever = threading.Event()
    engine = ResidentEngine(Workers(lambda task: forever.wait() and None), 1, patience=0.2)
    try:
        with pytest.raises(WorkerLostError, match="engine='jobs'"):
            engine.run(BatchRows(numbers=1), [Stage(numbers, SCHEMA)])
    finally:
        forever.set()
        engine.close()


def test_a_listener_on_a_host_that_is_not_this_one_is_an_error_at_once():
    with pytest.raises(OSError):
        listener("192.0.2.1")
