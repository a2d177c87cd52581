"""Figures of bounded size."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.page.thinning import Join, Joins, Mark, Scale

JOINS = Joins({"most": Join.MOST, "last": Join.LAST})

steps = st.lists(st.tuples(st.floats(0.01, 50), st.floats(0, 1e6)), min_size=1, max_size=300)


def filled(scale, gaps_and_values):
    time = 0.0
    for gap, value in gaps_and_values:
        time += gap
        scale.add(time, gap, {"mean": value, "most": value, "last": value})
    return scale


def close(a, b):
    return abs(a - b) <= 1e-4 * max(1.0, abs(a), abs(b))


@given(steps)
def test_a_whole_run_stays_small_and_keeps_its_mean_its_peak_and_its_last_value(rows):
    news, _ = filled(Scale(JOINS, room=16), rows).since(Mark())
    columns = news["columns"]
    assert len(columns["time"]) <= 16
    assert columns["time"] == sorted(columns["time"])
    assert close(max(columns["most"]), max(v for _, v in rows))
    assert close(columns["last"][-1], rows[-1][1])
    assert min(v for _, v in rows) * 0.999 - 1e-9 <= columns["mean"][0] <= max(v for _, v in rows) * 1.001


@given(steps, st.integers(1, 7))
def test_a_reader_that_takes_the_news_has_what_a_new_reader_gets(rows, every):
    """The mirror of the page, in Python."""
    for scale in (Scale(JOINS, room=16), Scale(JOINS, room=50, step=1.0, span=40.0)):
        mine, mark, time = {"generation": -1, "first": 0, "points": []}, Mark(), 0.0
        for at, (gap, value) in enumerate(rows):
            time += gap
            scale.add(time, gap, {"most": value})
            if at % every == 0:
                news, mark = scale.since(mark)
                _mirror(mine, news)
        news, mark = scale.since(mark)
        if news is not None:
            _mirror(mine, news)
        whole, _ = scale.since(Mark())
        assert mine["points"] == list(zip(whole["columns"]["time"], whole["columns"]["most"], strict=True))
        assert scale.since(mark)[0] is None


def _mirror(mine, news):
    if mine["generation"] != news["generation"]:
        mine |= {"generation": news["generation"], "first": news["from"], "points": []}
    kept = mine["points"][: news["from"] - mine["first"]]
    added = list(zip(news["columns"]["time"], news["columns"]["most"], strict=True))
    gone = min(len(kept), news["first"] - mine["first"])
    mine |= {"first": news["first"], "points": kept[gone:] + added}


def test_the_recent_past_drops_what_is_older():
    scale = filled(Scale(JOINS, room=200, step=0.1, span=10.0), [(0.5, 1.0)] * 400)
    news, _ = scale.since(Mark())
    assert news["columns"]["time"][0] >= 200 - 10.5
    assert len(news["columns"]["time"]) <= 22
