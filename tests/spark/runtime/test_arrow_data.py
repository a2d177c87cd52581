"""State files of Arrow segments."""

import pyarrow as pa

from penstock.spark.runtime.arrow_data import read_segment, write_segments


def test_each_segment_is_read_on_its_own(tmp_path):
    tables = [pa.table({"x": [1, 2]}), pa.table({"x": pa.array([], pa.int64())}), pa.table({"x": [3]})]
    name = write_segments(tmp_path, "w0", tables[0].schema, tables)
    assert [read_segment(tmp_path, name, i)["x"].to_pylist() for i in range(3)] == [[1, 2], [], [3]]


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
