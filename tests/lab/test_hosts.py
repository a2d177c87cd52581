"""Three hosts, a checkpoint in an object store: one host is cut off and comes back, the other is killed."""

import json
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from penstock.core.errors import PenstockError
from penstock.testing.s3 import found_server
from penstock_lab.benches import hosts
from penstock_lab.benches.hosts_driver import all_due
from penstock_lab.network_hosts import Hosts


@pytest.mark.cluster
@pytest.mark.kill
@pytest.mark.long
@pytest.mark.parametrize("part", hosts.PARTS)
def test_hosts_that_are_cut_off_or_killed_and_executors_that_come_and_go_change_nothing(part, tmp_path):
    try:
        found_server()
        with Hosts(1):
            pass
    except PenstockError as error:
        pytest.skip(str(error))
    page = hosts.run(True, tmp_path, part)
    assert {claim.holds for claim in page.claims} == {True}
    rows = page.tables[0].rows
    if part != "executors":  # there each host has executors enough for all workers, and Spark chooses
        assert all(row[page.tables[0].columns.index("hosts")] == 2 for row in rows), "workers on both hosts"


def test_a_quick_look_is_at_one_run_and_a_part_at_all_of_its_own(monkeypatch, tmp_path):
    figures = {
        "equal": True,
        "bytes": 100,
        "rows": 1,
        "copies": (1, 1),
        "after_cut": 9.0,
        "executors": [2, 4],
    }
    figures |= {"batches": 9, "longest": 1.0, "silence": 1.0, "hosts": 2}
    monkeypatch.setattr(hosts, "_run", lambda *_: figures)
    made = hosts.run(True, tmp_path)
    assert (made.quick, [len(table.rows) for table in made.tables]) == (True, [1])
    assert [len(table.rows) for table in hosts.run(True, tmp_path, "flow").tables] == [2]
    assert [len(table.rows) for table in hosts.run(False, tmp_path).tables] == [2, 2, 2]


class RecordingHosts:
    """Stands for hosts: keeps what was done to them."""

    def __init__(self):
        self.done = []

    def cut(self, number):
        self.done.append(("cut", number))

    def heal(self, number):
        self.done.append(("heal", number))

    def sent(self, number):
        return 0


def test_a_run_is_disturbed_even_where_the_batch_to_disturb_it_at_was_not_told(monkeypatch):
    """A driver tells the batches that it sees; those that end before it first looks are not among them."""
    lines = [
        {"batch": batch, "at": 0.5 * batch, "seconds": seconds, "hosts": 2, "executors": 2}
        for batch, seconds in ((14, 9.0), (15, 3.0), (40, 0.1))
    ]
    lines.append({"rows": 100, "equal": True})
    code = f"print({chr(10).join(map(json.dumps, lines))!r})"
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    made = RecordingHosts()
    monkeypatch.setattr(hosts, "_kill", lambda _, number: made.done.append(("kill", number)))
    found = hosts._watched(driver, made, True, hosts.Sizes(seconds=1, cut=0.0))
    assert made.done == [("cut", hosts.FIRST), ("heal", hosts.FIRST), ("kill", hosts.SECOND)]
    assert (found["batches"], found["silence"], found["executors"]) == (41, 12.5, [2, 2, 2])
    assert (found["longest"], found["after_cut"]) == (9.0, 3.0), (
        "the long batch before the cut is not its doing"
    )


def test_lost_windows_at_the_end_of_an_answer_are_noticed():
    begin = datetime(2026, 1, 1)
    ends = [begin + timedelta(seconds=n) for n in range(1, 8)]
    answer = [(end - timedelta(seconds=1), end, 0.5) for end in ends]
    due = begin + timedelta(seconds=5, milliseconds=300)
    assert all_due(answer[:5], answer, due)
    assert not all_due(answer[:4], answer, due), "the last window that is due is missing"
    assert not all_due(answer[:6], answer, due), "a window that is not due yet"
    assert not all_due([], answer[6:], due), "nothing at all"
