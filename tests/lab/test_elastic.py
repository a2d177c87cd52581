"""The elastic benchmark keeps what it has measured, and claims nothing within the spread."""

import math

import numpy as np
import pytest

from penstock.dataflow.regions import find_regions
from penstock.models import fit_map2
from penstock_lab.benches import elastic_flows, elastic_query
from penstock_lab.benches.elastic import Cell, Kept, Spread
from penstock_lab.benches.models_unseen import cells_of

CELLS = [Cell("query", "a load", "one"), Cell("query", "a load", "two")]


def test_a_call_goes_on_where_the_last_one_stopped(tmp_path):
    made = []

    def measure(cell, number):
        made.append((cell.way, number))
        if len(made) == 3:
            raise KeyboardInterrupt
        return {"lag": float(number)}

    kept = Kept(tmp_path, math.inf, runs=2)
    with pytest.raises(KeyboardInterrupt):
        kept.fill(CELLS, measure)
    kept.fill(CELLS, measure)
    assert made == [("one", 0), ("two", 0), ("one", 1), ("one", 1), ("two", 1)]
    assert [run["lag"] for run in kept.of(CELLS[1])] == [0.0, 1.0]
    found = kept.spread(CELLS[0], "lag")
    assert (found.mean, found.runs) == (0.5, 2)
    assert found.deviation == pytest.approx(0.5**0.5)


def test_when_time_is_up_nothing_more_is_run(tmp_path):
    kept = Kept(tmp_path, -math.inf, runs=2)
    kept.fill(CELLS, lambda cell, number: 1 / 0)
    assert kept.spread(CELLS[0], "lag").runs == 0


def test_a_difference_within_the_spread_is_none():
    assert Spread(1.0, 0.1, 3).below(Spread(1.5, 0.1, 3))
    assert not Spread(1.0, 0.3, 3).below(Spread(1.5, 0.3, 3))
    assert str(Spread.of([])) == "-"


def test_cells_have_names_of_their_own():
    cells = [*elastic_query.cells(), *elastic_flows.cells()]
    assert len({c.name for c in cells}) == len(cells)
    assert all(c.load.split(", beside")[0] in elastic_query.LOADS for c in elastic_query.cells())
    regions = {load: len(flow.regions) for load, flow in elastic_flows.FLOWS.items()}
    assert all(
        len(c.spec.get("replicas", [0] * regions[c.load])) == regions[c.load] for c in elastic_flows.cells()
    )


def test_the_regions_of_the_flows_are_those_that_scale():
    for load, flow in elastic_flows.FLOWS.items():
        tables = flow.tables(1)
        graph = flow.make({name: some[0].schema for name, some in tables.items()})
        assert set(flow.regions) <= {r.name for r in find_regions(graph) if r.scales}, load


def test_unseen_windows_of_a_fitted_kind_are_predicted():
    gaps = fit_map2(0.01, dispersion=20.0).sample(40_000, np.random.default_rng(1))
    cells, skipped = cells_of("MAP", 0, gaps[:20_000], gaps[20_000:])
    ours = [c for c in cells if c.model == "MAP" and c.window == "same"]
    assert len(ours) == 6
    assert all(c.near for c in ours)
    assert skipped <= 1
    assert not all(c.near for c in cells if c.model == "M/G/1")
