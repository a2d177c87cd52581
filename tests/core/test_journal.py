import json

import numpy as np
import pytest

from penstock.core import Change, Controller, Decision, Guards, Knob
from penstock.core.capacity import Capacity
from penstock.core.careful_journal import CarefulJournal
from penstock.core.errors import PenstockError
from penstock.core.journal import FileJournal, Journal, MemoryJournal, read
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.core.plant import Applied
from penstock.core.records import decode, encode
from penstock.policies import Threshold
from penstock.testing import ScriptedPlant
from penstock.testing.equality import same
from penstock.testing.policy_suite import example_observations


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "run" / "journal.jsonl"
    with FileJournal(path, {"plant": "scripted"}) as journal:
        loop = Controller(ScriptedPlant(example_observations(30)), Threshold(), Guards(cooldown=3), journal)
        for _ in range(30):
            loop.step()
        journal.warning(31.0, "test", "the end")
        journal.put({"kind": "batch", "time": 31.0, "rows": 5})
    return path


def test_reading_gives_tables_of_all_that_was_written(written):
    tables = read(written)
    assert len(tables.observations["time"]) == 30
    assert len(tables.stages["time"]) == 30 * 4
    assert len(tables.regions["region"]) == 30 * 2
    assert len(tables.decisions["reason"]) == 30
    assert len(tables.changes["after"]) >= len(tables.reconfigurations["time"]) > 0
    assert tables.warnings["text"].tolist() == ["the end"]
    assert tables.others["batch"]["rows"].tolist() == [5]
    assert tables.runs["plant"].tolist() == ["scripted"]
    assert tables.torn == 0
    panes = tables.stage("panes")
    assert panes["workers_planned"].dtype == float
    assert panes["latency_p95"][0] == pytest.approx(0.0075)
    assert tables.arrow("stages").num_rows == 120


def test_a_torn_last_line_is_skipped_and_counted(written):
    whole = written.read_bytes()
    count = len(read(written).records)
    for cut in range(1, 30):
        written.write_bytes(whole[:-cut])
        tables = read(written)
        assert tables.torn == (1 if cut > 1 else 0)
        assert len(tables.records) == count - tables.torn


def test_a_journal_that_was_torn_can_be_continued(written):
    written.write_bytes(written.read_bytes()[:-5])
    with FileJournal(written) as journal:
        journal.warning(40.0, "test", "continued")
    tables = read(written)
    assert tables.torn == 1
    assert tables.warnings["text"].tolist() == ["the end", "continued"]
    assert len(tables.runs["schema"]) == 2


def test_every_line_is_strict_json(written):
    def refuse(word):
        raise AssertionError(word)

    for line in written.read_text().splitlines():
        json.loads(line, parse_constant=refuse)


def test_observations_come_back_as_they_were(written):
    seen = list(read(written).replay())
    again = [decode(encode(o)) for o in seen]
    assert same(seen, again)
    assert seen[0].stage("panes").keys is not None
    assert seen[0].stage("chain/0").operators[1].cost == 0.2


def test_odd_numbers_survive():
    stage = StageObservation(
        "a", Capacity(np.int64(1), 1, 1), utilisation=float("inf"), extra={"x": float("nan")}
    )
    journal = MemoryJournal()
    journal.observation(Observation(np.float64(1.0), 1.0, (stage,)))
    row = journal.tables().stages
    assert row["utilisation"][0] == float("inf")
    assert "x" not in row


def test_numpy_numbers_can_be_written(tmp_path):
    with FileJournal(tmp_path / "j") as journal:
        journal.put({"kind": "batch", "rows": np.int64(3), "loads": np.arange(3)})
    assert read(tmp_path / "j").records[-1]["loads"] == [0, 1, 2]


def test_a_refused_change_is_kept_with_its_reason():
    journal = MemoryJournal()
    change = Change(Knob.CPU_SHARE, "a", 0.5)
    journal.reconfiguration(1.0, Applied((), refused=((change, "no cgroup"),)))
    assert "a cpu_share 0.5" in journal.tables().reconfigurations["refused"][0]


def test_a_decision_tells_its_prediction_and_whether_the_target_can_be_met():
    journal = MemoryJournal()
    journal.decision(1.0, "P", Decision((), "best effort", {Metric.LATENCY_MEAN: 0.2}, feasible=False))
    row = journal.tables().decisions
    assert row["predicted_latency_mean"][0] == 0.2
    assert row["feasible"][0] == 0


def test_files_that_are_no_journal_or_too_new_are_refused(tmp_path):
    with pytest.raises(PenstockError, match="cannot be read"):
        read(tmp_path / "missing")
    (tmp_path / "x").write_text("hello\n")
    with pytest.raises(PenstockError, match="no Penstock journal"):
        read(tmp_path / "x")
    (tmp_path / "y").write_text('{"kind":"run","schema":99}\n')
    with pytest.raises(PenstockError, match="newer Penstock"):
        read(tmp_path / "y")


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PenstockError, match="cannot be written"):
        FileJournal(tmp_path / "file" / "journal")


def test_observations_of_older_journals_are_read():
    bare = decode({"time": 1.0, "period": 2.0})
    assert (bare.stages, bare.period) == ((), 2.0)
    stage = {"name": "q", "workers": [1, 1, 1], "extra": {"trigger": 1.0, "level": 2.0, "x": 3.0}}
    old = decode({"time": 1.0, "period": 2.0, "stages": [stage], "extra": {"slots": 4.0}})
    assert (old.slots, old.stage("q").trigger, old.stage("q").level) == (4.0, 1.0, 2.0)
    assert dict(old.stage("q").extra) == {"x": 3.0}
    assert dict(old.extra) == {}


def test_a_journal_that_fails_in_any_way_costs_a_word():
    class Broken(Journal):
        def put(self, record):
            raise RuntimeError("a bug")

        def close(self):
            raise OSError("gone")

    told = []
    journal = CarefulJournal(Broken(), told.append)
    journal.warning(1.0, "test", "something")
    journal.warning(2.0, "test", "something")
    journal.close()
    assert told == [
        "The journal could not be written: RuntimeError: a bug",
        "The journal could not be closed: OSError: gone",
    ]


def test_whoever_is_told_of_problems_may_have_problems_too():
    journal = CarefulJournal(MemoryJournal(), lambda text: 1 / 0)
    journal.warn(1.0, "test", "something")
    assert journal.inner.texts() == ["something"]


def test_a_journal_of_a_file_reads_as_its_path(tmp_path):
    journal = FileJournal(tmp_path / "run.jsonl")
    assert f"journal: {journal}" == f"journal: {tmp_path / 'run.jsonl'}"
    journal.close()
