"""A journal that grows: its parts are read as one, whoever writes meanwhile."""

import threading

import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.core.journal import FileJournal, read
from penstock.core.tables import parts_of


def fill(journal, count, begin=0):
    for number in range(begin, begin + count):
        journal.put({"kind": "batch", "time": float(number), "rows": number})


def numbers(path):
    return read(path).others["batch"]["rows"].astype(int).tolist()


def test_a_journal_in_parts_reads_as_one(tmp_path):
    path = tmp_path / "journal.jsonl"
    with FileJournal(path, {"plant": "x"}, part_bytes=500) as journal:
        fill(journal, 100)
    assert len(parts_of(path)) > 3
    assert numbers(path) == list(range(100))
    assert all(part.stat().st_size < 700 for part in parts_of(path))
    with FileJournal(path, part_bytes=500) as journal:
        fill(journal, 50, 100)
    assert numbers(path) == list(range(150))
    assert read(parts_of(path)[0]).others["batch"]["rows"][0] == 0  # each part can be read alone


def test_only_the_last_parts_are_kept(tmp_path):
    path = tmp_path / "a.b" / "run.jsonl"
    with FileJournal(path, part_bytes=500, parts=3) as journal:
        fill(journal, 300)
    assert len(parts_of(path)) == 3
    left = numbers(path)
    assert left == list(range(left[0], 300))


def test_another_journal_beside_it_is_none_of_its_parts(tmp_path):
    with FileJournal(tmp_path / "journal.jsonl", part_bytes=300) as journal:
        fill(journal, 20)
    with FileJournal(tmp_path / "journal.2.jsonl") as other:
        fill(other, 3)
    assert numbers(tmp_path / "journal.jsonl") == list(range(20))
    assert numbers(tmp_path / "journal.2.jsonl") == [0, 1, 2]


def test_two_writers_of_one_file_lose_nothing(tmp_path):
    path = tmp_path / "journal.jsonl"
    journals = [FileJournal(path, part_bytes=2000) for _ in range(2)]
    for begin in range(0, 200, 10):
        fill(journals[begin // 10 % 2], 10, begin)
    assert sorted(numbers(path)) == list(range(200))


def test_reading_while_parts_are_made_never_loses_what_was_there(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path, part_bytes=400, parts=1000)
    fill(journal, 10)
    writer = threading.Thread(target=fill, args=(journal, 2000, 10))
    writer.start()
    seen = 10
    while writer.is_alive():
        now = numbers(path)
        assert now == list(np.arange(len(now)))
        assert len(now) >= seen
        seen = len(now)
    writer.join()
    assert len(numbers(path)) == 2010


def test_a_journal_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(PenstockError, match="cannot be read"):
        read(tmp_path / "none.jsonl")


def test_a_journal_may_have_a_name_without_an_ending(tmp_path):
    with FileJournal(tmp_path / "journal", part_bytes=500) as journal:
        fill(journal, 100)
    assert len(parts_of(tmp_path / "journal")) > 3
    assert numbers(tmp_path / "journal") == list(range(100))
