import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataflow import layers as layers_module
from penstock.dataflow.keys import group_of, hash_keys, missing_keys, rehash, within
from penstock.dataflow.layers import (
    DISPLACED,
    DROPPED,
    FLAGS,
    HASH,
    assign,
    find,
    first_hash,
    hashes_of,
    merge,
)


@given(st.lists(st.text(max_size=8), max_size=40))
def test_equal_texts_have_equal_hashes_and_slices_agree_with_the_whole(words):
    table = pa.table({"w": pa.array(words, pa.string())})
    hashes = hash_keys(table, ["w"])
    assert len(set(hashes.tolist())) == len(set(words))
    if len(words) > 2:
        assert (hash_keys(table.slice(1), ["w"]) == hashes[1:]).all()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 3], pa.int32()),
        pa.array([1.5, -0.0, 0.0]),
        pa.array([True, False, True]),
        pa.array(
            [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 1)]
        ),
        pa.array([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array(["a", "b", "a"], pa.large_string()),
    ],
)
def test_every_plain_type_can_be_a_key(values):
    hashes = hash_keys(pa.table({"k": values}), ["k"])
    same = [[a.as_py() == b.as_py() for b in values] for a in values]
    assert [[a == b for b in hashes] for a in hashes] == same


def test_groups_are_even_and_rise_with_the_hash():
    hashes = np.sort(hash_keys(pa.table({"k": np.arange(100_000)}), ["k"]))
    groups = group_of(hashes, 256)
    assert (np.diff(groups) >= 0).all()
    assert np.bincount(groups).min() > 250
    for group in (1, 100, 255):
        assert (hashes[groups >= group] >= first_hash(group, 256)).all()


def test_longer_keys_and_second_hashes_stay_in_their_group():
    region = hash_keys(pa.table({"k": np.arange(1000)}), ["k"])
    own = hash_keys(pa.table({"k": np.arange(1000), "j": np.arange(1000)[::-1]}), ["k", "j"])
    assert (group_of(within(region, own), 256) == group_of(region, 256)).all()
    assert (group_of(rehash(region), 256) == group_of(region, 256)).all()
    assert (rehash(region) != region).all()


def test_rows_without_a_key_are_found():
    table = pa.table({"k": [1.0, None, float("nan")], "j": ["a", "b", None]})
    assert missing_keys(table, ["k"]).tolist() == [False, True, True]
    assert missing_keys(table.slice(0, 1), ["k", "j"]) is None


def layer(keys, hashes, flags=None):
    order = np.argsort(hashes, kind="stable")
    return pa.table(
        {
            HASH: pa.array(np.asarray(hashes, dtype=np.uint64)[order]),
            FLAGS: pa.array(
                np.asarray(flags if flags is not None else np.zeros(len(keys)), dtype=np.uint8)[order]
            ),
            "key_k": pa.array([keys[i] for i in order]),
        }
    )


def test_keys_with_one_hash_are_told_apart_and_found_again():
    keys = pa.table({"key_k": ["a", "b", "c", "a", "b"]})
    weak = np.zeros(5, dtype=np.uint64)
    first = assign(keys, weak, [])
    assert first.slots[0] == first.slots[3] != first.slots[1] == first.slots[4] != first.slots[2]
    assert first.displaced.sum() == 2
    stored = layer(
        [keys["key_k"][int(i)].as_py() for i in first.first], first.hashes, first.displaced * DISPLACED
    )
    again = assign(pa.table({"key_k": ["c", "b", "a", "new"]}), np.zeros(4, dtype=np.uint64), [stored])
    names = [
        stored["key_k"][int(r)].as_py() if found >= 0 else None
        for r, found in zip(again.found.row, again.found.layer, strict=True)
    ]
    assert [names[s] for s in again.slots] == ["c", "b", "a", None]


def test_a_dropped_key_stays_as_a_mark_while_a_displaced_one_is_behind_it():
    kept = merge([layer(["a", "b"], [1, 2], [DROPPED, DISPLACED])])
    assert kept.num_rows == 2
    assert merge([layer(["a", "b"], [1, 2], [DROPPED, 0])]).num_rows == 1


@given(st.lists(st.dictionaries(st.integers(0, 30), st.integers(), max_size=12), min_size=1, max_size=5))
def test_the_topmost_layer_wins_and_merging_keeps_the_answer(history):
    layers, truth = [], {}
    for changes in history:
        hashes = sorted(changes)
        layers.append(
            pa.table(
                {
                    HASH: pa.array(hashes, pa.uint64()),
                    FLAGS: pa.array([0] * len(hashes), pa.uint8()),
                    "v": pa.array([changes[h] for h in hashes], pa.int64()),
                }
            )
            if all(abs(v) < 2**62 for v in changes.values())
            else pa.table(
                {
                    HASH: pa.array([], pa.uint64()),
                    FLAGS: pa.array([], pa.uint8()),
                    "v": pa.array([], pa.int64()),
                }
            )
        )
        truth |= changes if layers[-1].num_rows else {}
    wanted = np.arange(31, dtype=np.uint64)
    for some in (layers, [merge(layers)]):
        for size in (31, 1):  # all together are gone through, one among many is searched for
            got = {}
            for asked in np.split(wanted, 31 // size):
                found = find(some, asked)
                got |= {
                    int(h): some[a]["v"][int(r)].as_py()
                    for h, a, r in zip(asked, found.layer, found.row, strict=True)
                    if a >= 0
                }
            assert got == truth
    assert (np.diff(hashes_of(merge(layers)).astype(np.int64)) > 0).all()


def test_factorising_numbers_the_distinct_values_by_appearance():
    codes, first = layers_module._factorize(np.array([7, 3, 7, 9], dtype=np.uint64))
    assert codes.tolist() == [0, 1, 0, 2]
    assert first.tolist() == [0, 1, 3]
