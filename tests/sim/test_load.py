import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from locked import lock
from penstock.core.errors import PenstockError
from penstock.sim import load
from penstock.sim.load import GENERATORS
from penstock.traffic.trace import Trace, write_trace


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_give_ascending_arrivals_that_depend_on_the_seed(name):
    one, same, other = load(name, 20.0, 1), load(name, 20.0, 1), load(name, 20.0, 2)
    assert np.all(np.diff(one.arrivals) >= 0)
    assert np.array_equal(one.arrivals, same.arrivals)
    assert not np.array_equal(one.arrivals[:50], other.arrivals[:50])
    assert one.arrivals[-1] <= 20.0


def test_a_trace_file_is_a_load(tmp_path):
    path = tmp_path / "t.csv"
    write_trace(path, Trace(np.array([0.0, 1.0, 2.0, 8.0])))
    assert load(str(path)).seconds == 8.0
    assert len(load(str(path), seconds=1.5).arrivals) == 2


@pytest.mark.parametrize("text", ["ts\n5\n", "ts\n5\n5\n5\n", "arrival\n0\n", "arrival\n0\n0\n"])
def test_a_trace_without_length_is_refused(tmp_path, text):
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(PenstockError, match=r"'t.csv' are at one time.*give a trace"):
        load(str(file), column=text.partition("\n")[0])


def test_a_trace_that_starts_before_its_start_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("arrival\n-3\n1\n60\n")
    with pytest.raises(PenstockError, match=r"'t.csv' starts before time 0; shift"):
        load(str(tmp_path / "t.csv"))


@pytest.mark.parametrize("spec", ["poisson", "t.csv"])
def test_no_seconds_at_all_are_refused(tmp_path, monkeypatch, spec):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("arrival\n0\n60\n")
    with pytest.raises(PenstockError, match="A load of 0 seconds is impossible"):
        load(spec, seconds=0.0)


def test_event_times_that_nobody_needs_may_be_anything(tmp_path):
    (tmp_path / "t.csv").write_text("arrival,event_time\n0,monday\n1,\n2,tuesday\n")
    assert load(str(tmp_path / "t.csv")).seconds == 2.0
    nulls = pa.table({"arrival": [0.0, 1.0], "event_time": pa.array([None, 1.0])})
    pq.write_table(nulls, tmp_path / "t.parquet")
    assert load(str(tmp_path / "t.parquet")).seconds == 1.0


def test_a_folder_of_parquet_files_is_one_load(tmp_path):
    for part in range(3):
        pq.write_table(pa.table({"arrival": [2.0 * part, 2.0 * part + 1]}), tmp_path / f"part-{part}.parquet")
    (tmp_path / "_SUCCESS").touch()
    found = load(str(tmp_path))
    assert found.arrivals.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert found.name == tmp_path.name


def test_unknown_loads_and_parameters_are_named():
    with pytest.raises(PenstockError, match="nonsense"):
        load("nonsense")
    with pytest.raises(PenstockError, match="burst"):
        load("poisson:burst=3")
    with pytest.raises(PenstockError, match="no number"):
        load("poisson:rate=fast")


def test_a_place_that_cannot_be_looked_at_is_told_and_words_too_long_for_one_are_no_file(
    tmp_path, monkeypatch
):
    place = lock(monkeypatch, tmp_path / "locked")
    with pytest.raises(PenstockError, match=r"cannot be read \(Permission denied\)"):
        load(str(place))
    with pytest.raises(PenstockError, match="did you mean 'poisson'"):
        load("poison:" + "rate=1," * 50)
