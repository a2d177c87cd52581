"""Places in object stores, and journals there; the stores are in this process."""

import os
import threading
import uuid

import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.core.journal import read
from penstock.core.store_journal import StoreJournal
from penstock.core.stores import StorePath, check_store, is_store, remove_objects

pytest.importorskip("obstore")


#: A further store to try, such as ``az://container`` with the emulator's variables in the environment.
OTHER = os.environ.get("PENSTOCK_TEST_STORE")


@pytest.fixture(params=["memory", "google", *filter(None, [OTHER])])
def place(request):
    if request.param == "google":
        return StorePath.of(request.getfixturevalue("google"))
    if request.param == OTHER:
        return StorePath.of(f"{OTHER}/{uuid.uuid4().hex[:8]}")
    return StorePath.of(f"memory://{uuid.uuid4().hex}/run")


def test_addresses_are_told_from_folders():
    assert is_store("s3://bucket/a")
    assert is_store("s3:/bucket/a")  # as pathlib leaves it
    assert not any(map(is_store, ["/data/ck", "data/ck", "file:///data/ck", "C:ck", "/odd/s3://bucket"]))
    assert str(StorePath.of("s3:/bucket/a//b/../c")) == "s3://bucket/a/c"
    assert str(StorePath.of("az://container")) == "az://container"
    with pytest.raises(PenstockError, match=r"no address of an object store .* s3://BUCKET/PATH"):
        StorePath.of("ftp://host/a")


def test_an_object_is_put_once_or_swapped_for_one_that_is_known(place):
    first = (place / "a").create(b"1")
    assert first is not None
    assert (place / "a").create(b"2") is None
    assert (place / "a").create(b"1") == first  # the answer to our own put was lost, and it was tried again
    second = (place / "a").swap(b"3", first)
    assert second not in (None, first)
    assert (place / "a").swap(b"4", first) is None
    assert (place / "a").read_bytes() == b"3"


def test_listing_copying_and_removing(place):
    for name in ("x.json", "y.json", "in/z.json", "in/deep/w.json"):
        (place / name).write_text(name)
    assert sorted(p.name for p in place.iterdir()) == ["x.json", "y.json"]
    assert [p.name for p in place.glob("*/*.json")] == ["z.json"]
    (place / "x.json").copy_to(place / "copy")
    remove_objects([place / "x.json", place / "never"])
    assert not (place / "x.json").exists()
    assert ((place / "copy").read_text(), (place / "copy").size()) == ("x.json", 6)
    with pytest.raises(FileNotFoundError):
        (place / "x.json").read_bytes()
    with pytest.raises(FileNotFoundError):
        (place / "x.json").copy_to(place / "copy")


def test_a_store_without_conditional_put_is_refused_at_the_start(place, monkeypatch):
    check_store(place, "checkpoint")
    assert list(place.below()) == []
    monkeypatch.setattr(StorePath, "create", lambda self, data: "tag")  # it takes whatever is put
    with pytest.raises(PenstockError, match="no conditional put"):
        check_store(place / "other", "checkpoint")


def test_a_store_that_swaps_whatever_is_there_is_refused_at_the_start(place, monkeypatch):
    def swapped(self, data, tag):
        self.write_bytes(data)
        return self.tag

    monkeypatch.setattr(StorePath, "swap", swapped)
    with pytest.raises(PenstockError, match="no conditional put"):
        check_store(place, "checkpoint")
    assert list(place.below()) == []


def test_a_bucket_that_is_not_there_is_one_sentence(google):
    with pytest.raises(PenstockError, match="There is no 'gs://nowhere'"):
        check_store(StorePath.of("gs://nowhere/run"), "checkpoint")


def test_records_of_other_threads_are_kept_while_a_part_is_put(place, monkeypatch):
    monkeypatch.setattr("penstock.core.store_journal.PART_BYTES", 300)
    with StoreJournal(place / "journal.jsonl") as journal:
        put, threads, here = StorePath.write_bytes, [], threading.current_thread()

        def putting(self, data):
            """Another thread has a record just now, which may have to wait."""
            if threading.current_thread() is here:
                at = len(threads)
                threads.append(threading.Thread(target=journal.put, args=({"kind": "other", "time": at},)))
                threads[-1].start()
                threads[-1].join(0.05)
            put(self, data)

        monkeypatch.setattr(StorePath, "write_bytes", putting)
        for at in range(20):
            journal.put({"kind": "note", "time": at})
        monkeypatch.setattr(StorePath, "write_bytes", put)
        for thread in threads:
            thread.join()
        found = journal.tables().others
    assert found["note"]["time"].tolist() == list(range(20))
    assert sorted(found["other"]["time"].tolist()) == list(range(len(threads)))
    assert len(threads) > 3


def test_a_journal_in_a_store_is_parts_that_read_as_one(place, monkeypatch):
    monkeypatch.setattr("penstock.core.store_journal.PART_BYTES", 500)
    for run in range(2):
        with StoreJournal(place / "journal.jsonl", {"run": run}) as journal:
            for at in range(50):
                journal.put({"kind": "note", "time": at, "value": np.float64(at)})
            assert len(journal.tables().others["note"]["time"]) == 50 * (run + 1)
    with pytest.raises(PenstockError, match="is closed"):
        journal.put({"kind": "note"})
    found = read(str(place / "journal.jsonl"))
    assert found.others["note"]["time"].tolist() == [*range(50), *range(50)]
    assert len(list(place.glob("journal.*.jsonl"))) > 4
    with pytest.raises(PenstockError, match="There is no journal"):
        read(str(place / "other.jsonl"))
