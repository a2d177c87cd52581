"""Which cells of unseen windows a fit misses, and the causes that are tried."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.models import Erlang, MapPh1, Poisson, fit_map2
from penstock_lab.benches.models_misses import CAUSES, Miss, told
from penstock_lab.benches.models_unseen import Cell, cells_of, misses

CALM = Miss(Poisson(1.0), 0.5, 5_000, "mean", 1.0)


def in_the_long_run(miss):
    queue = MapPh1(miss.process, Erlang(2, miss.load * miss.process.mean))
    return queue.mean_response if miss.figure == "mean" else queue.percentile(95)


def test_short_windows_of_a_bursty_process_may_come_to_a_third_of_the_long_run_by_chance_and_calm_ones_not():
    bursty = replace(CALM, process=fit_map2(1.0, dispersion=300.0), load=0.9)
    short_of = 0.35 * in_the_long_run(bursty)
    assert replace(bursty, simulated=short_of).cause(False, False, 1) == "chance"
    assert not replace(CALM, simulated=0.4 * in_the_long_run(CALM)).likely(1)


def test_a_window_is_at_an_edge_where_a_load_nearby_would_be_right():
    busy = replace(CALM, load=0.93)
    assert replace(busy, simulated=2.5 * in_the_long_run(busy)).at_an_edge()
    assert not replace(CALM, simulated=2.5 * in_the_long_run(CALM)).at_an_edge()


@pytest.mark.parametrize(
    ("later", "rate", "cause"), [(True, True, "rate"), (True, False, "shape"), (False, False, "trend")]
)
def test_what_nothing_else_explains_is_the_trend_or_the_next_windows_shape(later, rate, cause):
    assert replace(CALM, simulated=5.0 * in_the_long_run(CALM)).cause(later, rate, 1) == cause


def test_every_missed_cell_is_in_the_table_with_its_factor_and_a_sentence_for_its_cause():
    cells = [
        Cell("walk", 0, 0.9, "MAP", "same", "mean", 3.0, "trend"),
        Cell("walk", 1, 0.9, "MAP", "same", "mean", 1.0),
        Cell("walk", 1, 0.9, "MAP", "next", "mean", 0.25, "rate"),
        Cell("walk", 1, 0.9, "MAP", "next", "P95", 9.0),  # no goal is about it
        Cell("walk", 1, 0.9, "M/G/1", "same", "mean", 0.01),
    ]
    table = misses(cells)
    assert table.rows == [
        ("walk", 0.9, "mean: same", "1 of 2", "3 (trend)"),
        ("walk", 0.9, "mean: next", "1 of 1", "0.25 (rate)"),
    ]
    assert all(f"*{cause}*: {CAUSES[cause]}." in table.note for cause in ("trend", "rate"))
    assert "*edge*" not in table.note
    assert told([]) == ""


def test_every_miss_of_a_real_pair_of_windows_has_a_cause():
    rng = np.random.default_rng(3)
    here, after = (
        rng.exponential(1.0, 3_000),
        rng.exponential(0.8, 3_000),
    )  # the next window is faster by a quarter
    cells, skipped = cells_of("faster", 0, here, after)
    missed = [
        c for c in cells if c.model == "MAP" and not c.near and (c.window, c.figure) == ("next", "mean")
    ]
    assert skipped == 1
    assert all(c.cause == "rate" for c in missed)
    assert not any(c.cause for c in cells if c.near or c.model != "MAP")
