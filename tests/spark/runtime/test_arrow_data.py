"""State files of Arrow segments."""

import pyarrow as pa
import pytest

from penstock.spark.runtime.arrow_data import (
    binary_column,
    binary_values,
    from_buffer,
    read_rows,
    read_segment,
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
