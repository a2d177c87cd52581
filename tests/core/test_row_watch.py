"""Warnings about the rows of a stream: said once, and again only after it was well in between."""

from math import nan

from penstock.core.row_watch import RowWatch


def test_a_high_share_is_told_once_and_again_after_it_was_well():
    told = []
    watch = RowWatch(told.append)
    for _ in range(30):
        watch.batch(100, late=50)
    assert len(told) == 1
    assert "50 % came too late" in told[0]
    for _ in range(60):
        watch.batch(100)
    watch.batch(1000, dead=900)
    watch.batch(1000, late=900)
    assert [("came too late" in t, "dead letters" in t) for t in told[1:]] == [(False, True), (True, False)]


def test_few_rows_and_small_shares_are_no_matter():
    told = []
    watch = RowWatch(told.append)
    watch.batch(19, late=19)
    for _ in range(50):
        watch.batch(1000, late=60, dead=60)
    assert told == []


def test_windows_that_never_close_are_told_with_the_slack():
    told = []
    watch = RowWatch(told.append)
    watch.closing(0, nan, 1.0, 0.0)
    for newest in range(40):
        watch.closing(0, float(newest), 1.0, 1.7e9)
    assert len(told) == 1
    assert "went on by 11 s" in told[0]
    assert "1.7e+09 s late" in told[0]
    watch.closing(1, 41.0, 1.0, 0.0)
    watch.closing(0, 51.0, 1.0, 0.0)
    assert len(told) == 1
