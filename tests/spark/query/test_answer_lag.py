"""How late answers are, as ``run.progress`` tells it: in this process, batch by batch."""

import pyarrow as pa
import pytest

import penstock as ps
from penstock.spark.query.outputs import QueryOutputs
from penstock.spark.query.program import QueryProgram
from penstock.spark.runtime.engine import BatchRows, JobsEngine
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.program import Batch
from penstock.testing.frames import InProcessFrame, InProcessSession

SCHEMA = pa.schema([("t", pa.timestamp("us", "UTC")), ("a", pa.float64())])
NOW = 1_790_000_000


def progress_of(folder, seconds):
    """One batch of rows of so many seconds, ten a second, in windows of a second."""
    (folder / "state").mkdir(parents=True)
    query = ps.PreferenceQuery(ps.skyline_of(ps.minimize("a")), time="t", window="1 second")
    folders = OutputFolder.made(folder, "output"), OutputFolder.made(folder / "dead", "dead-letter")
    program = QueryProgram(query, SCHEMA, QueryOutputs(*folders), 1.0)
    times = [NOW * 1_000_000 + n * 100_000 for n in range(int(10 * seconds))]
    rows = pa.record_batch(
        [pa.array(times).cast(SCHEMA.field("t").type), pa.array([float(t) for t in times])], schema=SCHEMA
    )
    session = InProcessSession()
    batch = Batch(
        0,
        BatchRows(frame=InProcessFrame([[rows]])),
        JobsEngine(session),
        session,
        dict(program.first_state()),
        str(folder / "state"),
        "000000000000-abcdef",
        float(NOW),
    )
    return program.committed(batch, program.run_batch(batch), 0.1, None)


def test_of_windows_given_out_together_the_first_is_the_latest(tmp_path):
    told = progress_of(tmp_path, 3.5)
    assert told["windows"] == 3
    assert told["answer_lag_max"] - told["answer_lag"] == pytest.approx(1.0)


def test_one_window_has_one_lag_and_none_has_none(tmp_path):
    one = progress_of(tmp_path / "one", 1.5)
    assert one["answer_lag_max"] == one["answer_lag"]
    none = progress_of(tmp_path / "none", 0.5)
    assert none["windows"] == 0
    assert none["answer_lag_max"] != none["answer_lag_max"]
