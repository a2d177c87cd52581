import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import PenstockError
from penstock.preference.group_codes import group_codes

VALUES = {
    "text": st.sampled_from(["", "a", "b", "ab", None]),
    "integer": st.sampled_from([0, 1, -1, 2**62, None]),
    "float": st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), None]),
    "flag": st.sampled_from([True, False, None]),
    "day": st.sampled_from([date(2020, 1, 1), date(1960, 5, 5), None]),
    "time": st.sampled_from([datetime(2020, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC), None]),
    "money": st.sampled_from([Decimal("1.10"), Decimal("-2.00"), None]),
    "raw": st.sampled_from([b"", b"\x00", b"x", None]),
}
TYPES = {
    "text": pa.string(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "time": pa.timestamp("us", "UTC"),
    "money": pa.decimal128(10, 2),
    "raw": pa.binary(),
}


def same(a, b):
    return a == b or (a != a and b != b) or (a is None and b is None)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True))
def test_codes_are_equal_exactly_where_rows_are_equal(data, names):
    rows = data.draw(st.lists(st.tuples(*(VALUES[n] for n in names)), min_size=1, max_size=12))
    table = pa.table({n: pa.array([r[i] for r in rows], TYPES[n]) for i, n in enumerate(names)})
    codes = group_codes(table, names)
    for i, left in enumerate(rows):
        for j, right in enumerate(rows):
            equal = all(same(a, b) for a, b in zip(left, right, strict=True))
            assert (codes[i] == codes[j]) == equal
    alone = [group_codes(table.slice(i, 1), names)[0] for i in range(len(rows))]
    assert alone == codes.tolist(), "a row's code must not depend on its batch"


def test_codes_are_the_same_in_another_process():
    program = (
        "import pyarrow as pa; from penstock.preference.group_codes import group_codes;"
        "print(group_codes(pa.table({'a': ['x', 'y'], 'b': [1, 2]}), ['a', 'b']).tolist())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert group_codes(pa.table({"a": ["x", "y"], "b": [1, 2]}), ["a", "b"]).tolist() == eval(printed)


def test_dictionaries_and_large_strings_are_coded_like_strings():
    plain = pa.table({"a": ["x", "y", None]})
    codes = group_codes(plain, ["a"]).tolist()
    assert group_codes(pa.table({"a": plain["a"].dictionary_encode()}), ["a"]).tolist() == codes
    assert group_codes(pa.table({"a": plain["a"].cast(pa.large_string())}), ["a"]).tolist() == codes


def test_record_batches_and_empty_tables_are_fine():
    batch = pa.record_batch({"a": ["x", "y"]})
    assert group_codes(batch, ["a"]).tolist() == group_codes(pa.table({"a": ["x", "y"]}), ["a"]).tolist()
    assert len(group_codes(pa.table({"a": pa.array([], pa.string())}), ["a"])) == 0


def test_a_million_integers_do_not_collide():
    codes = group_codes(pa.table({"a": np.arange(1_000_000)}), ["a"])
    assert len(np.unique(codes)) == 1_000_000


def test_nested_columns_are_refused():
    with pytest.raises(PenstockError, match="groups"):
        group_codes(pa.table({"a": [[1], [2]]}), ["a"])
    with pytest.raises(PenstockError, match="Unknown column"):
        group_codes(pa.table({"a": [1]}), ["b"])
