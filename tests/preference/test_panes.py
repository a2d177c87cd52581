import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import PenstockError
from penstock.preference.panes import PaneModel


@st.composite
def models(draw):
    pane = draw(st.integers(1, 7))
    slide = draw(st.integers(1, 6))
    return PaneModel(pane * (slide + draw(st.integers(0, 9))), pane * slide)


@given(models(), st.lists(st.integers(-200, 200), min_size=1, max_size=30))
def test_a_time_is_in_the_pane_that_covers_it(model, times):
    for time, pane in zip(times, model.pane_of(times).tolist(), strict=True):
        start, end = model.pane_bounds(pane)
        assert start <= time < end


@given(models(), st.integers(-60, 60))
def test_a_pane_is_in_the_windows_that_cover_it(model, pane):
    windows = set(model.windows_of_pane(pane))
    start, end = model.pane_bounds(pane)
    for window in range(-200, 200):
        (begin,), (stop,) = model.window_bounds([window])
        assert (window in windows) == (begin <= start and end <= stop)
        first, last = model.panes_of_window(window)
        assert (first <= pane <= last) == (window in windows)


@given(
    models(),
    st.lists(st.integers(-40, 40), max_size=8),
    st.integers(-200, 300),
    st.none() | st.integers(-40, 40),
)
def test_complete_windows_with_rows_are_emitted_once_and_in_order(model, panes, punctuation, after):
    want = [
        w
        for w in range(-200, 200)
        if model.window_bounds(w)[1] <= punctuation
        and (after is None or w > after)
        and any(model.panes_of_window(w)[0] <= p <= model.panes_of_window(w)[1] for p in panes)
    ]
    assert model.windows_to_emit(panes, punctuation, after).tolist() == want


@given(models(), st.integers(-300, 300))
def test_a_punctuation_closes_the_panes_that_end_before_it(model, punctuation):
    still_open = model.closed_before(punctuation)
    assert model.pane_bounds(still_open - 1)[1] <= punctuation < model.pane_bounds(still_open)[1]
    last = model.complete_up_to(punctuation)
    assert model.window_bounds(last)[1] <= punctuation < model.window_bounds(last + 1)[1]


@given(models(), st.integers(-30, 30))
def test_panes_before_the_next_window_can_go(model, last_window):
    needed = model.first_pane_needed(last_window)
    assert needed == model.panes_of_window(last_window + 1)[0]


def test_a_gap_of_a_thousand_years_costs_nothing():
    model = PaneModel.of("1 second", "200 milliseconds")
    far = 1000 * 365 * 86400 * 5
    windows = model.windows_to_emit([0, far], punctuation_us=(far + 10) * model.pane_us)
    assert len(windows) == 10
    assert (np.diff(windows) > 0).all()


@pytest.mark.parametrize(
    ("window", "slide", "says"),
    [
        ("1 second", "2 seconds", "longer than the window"),
        ("0 seconds", "1 second", "longer than zero"),
        ("1 second", "-1 second", "longer than zero"),
        ("1 second", "333333 microseconds", "common"),
        ("soon", "1 second", "not understood"),
    ],
)
def test_windows_that_make_no_sense_are_refused(window, slide, says):
    with pytest.raises(PenstockError, match=says):
        PaneModel.of(window, slide)


def test_without_a_slide_windows_do_not_overlap():
    assert PaneModel.of("6 hours").panes_per_window == 1
