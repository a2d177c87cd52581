"""State files of Arrow segments."""

import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.spark.runtime.arrow_data import (
    binary_column,
    binary_values,
    from_buffer,
    in_utc,
    read_rows,
    read_segment,
    read_segments,
    single_batch,
    to_buffer,
    write_segments,
)


def test_each_segment_is_read_on_its_own(tmp_path):
    tables = [pa.table({"x": [1, 2]}), pa.table({"x": pa.array([], pa.int64())}), pa.table({"x": [3]})]
    name = write_segments(tmp_path, "w0", tables[0].schema, tables)
    assert [read_segment(tmp_path, name, i)["x"].to_pylist() for i in range(3)] == [[1, 2], [], [3]]


def test_rows_that_an_earlier_version_wrote_in_another_zone_are_of_the_same_moments(tmp_path):
    times = pa.array([0, None], pa.int64()).cast(pa.timestamp("us", "Europe/Rome"))
    table = pa.table({"t": times, "x": [1, 2]})
    name = write_segments(tmp_path, "w0", table.schema, [table])
    found = read_rows(tmp_path, name, 0)
    assert found.schema.field("t").type == pa.timestamp("us", "UTC")
    assert found.to_pylist() == table.to_pylist()


def test_numbers_are_mapped_not_copied(tmp_path):
    table = pa.table({"x": [0.5] * 1000})
    name = write_segments(tmp_path, "w0", table.schema, [table])
    before = pa.total_allocated_bytes()
    column = read_segment(tmp_path, name, 0)["x"].chunk(0)
    assert column.to_numpy(zero_copy_only=True)[0] == 0.5
    assert pa.total_allocated_bytes() - before < 4000


def test_two_attempts_write_two_files(tmp_path):
    table = pa.table({"x": [1]})
    names = {write_segments(tmp_path, "w0", table.schema, [table]) for _ in range(2)}
    assert len(names) == 2


def test_chunked_tables_and_texts_survive(tmp_path):
    table = pa.concat_tables([pa.table({"s": ["a", None]}), pa.table({"s": ["b", "c"]})])
    name = write_segments(tmp_path, "w0", table.schema, [table])
    assert read_segment(tmp_path, name, 0)["s"].to_pylist() == ["a", None, "b", "c"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(range(5000)),
        pa.array(["a", None, "long" * 300] * 1000),
        pa.array(["a", "b", None] * 1000).dictionary_encode(),
        pa.array([[1, 2], [], None]),
        pa.array([], pa.float64()),
    ],
    ids=str,
)
def test_rows_fill_the_memory_that_was_counted_for_them(column):
    table = pa.table({"x": column}).slice(1)
    assert from_buffer(to_buffer(table)).equals(table)
    several = pa.concat_tables([table, table])
    assert from_buffer(to_buffer(several)).equals(several)


def test_a_large_value_is_copied_neither_into_its_column_nor_out_of_it():
    body = pa.py_buffer(bytes(1 << 20))
    assert binary_values(binary_column([body]))[0].address == body.address


def test_values_of_a_column_of_wide_offsets_are_what_they_are():
    column = pa.array([b"ab", b"", b"c" * 300], pa.large_binary())
    assert [v.to_pybytes() for v in binary_values(column.slice(1))] == [b"", b"c" * 300]


def test_rows_have_narrow_texts_inside_whatever_the_session_says():
    wide = pa.schema(
        [
            ("s", pa.large_string()),
            ("b", pa.large_binary()),
            ("l", pa.list_(pa.large_string())),
            ("n", pa.int8()),
        ]
    )
    table = pa.table({"s": ["a"], "b": [b"b"], "l": [["c", None]], "n": [1]}, schema=wide)
    inside = in_utc(table)
    assert inside.schema.types == [pa.string(), pa.binary(), pa.list_(pa.string()), pa.int8()]
    assert inside.to_pylist() == table.to_pylist()


class TooLarge:
    """A table whose column Arrow cannot put together: more than 2 GiB, which a test should not need."""

    def combine_chunks(self):
        return pa.table({"s": pa.chunked_array([["a"], ["b"]])})


def test_rows_that_one_batch_cannot_hold_are_an_error_and_do_not_vanish():
    with pytest.raises(PenstockError, match="more than 2 GiB of text"):
        single_batch(TooLarge())


def test_a_message_that_a_column_cannot_hold_is_one_sentence(monkeypatch):
    monkeypatch.setattr("penstock.spark.runtime.arrow_data.COLUMN_BYTES", 3)
    with pytest.raises(PenstockError, match=r"A message of .* GiB is more than a column can hold"):
        binary_column([b"abcd"])


def test_all_segments_of_a_file_are_read_in_turn(tmp_path):
    tables = [pa.table({"x": [1, 2]}), pa.table({"x": [3]})]
    name = write_segments(tmp_path, "w0", tables[0].schema, tables)
    assert [table["x"].to_pylist() for table in read_segments(tmp_path, name)] == [[1, 2], [3]]
