from hypothesis import given
from hypothesis import strategies as st

from penstock.core.allocation import fit


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 64))
def test_what_is_given_fits_leaves_nobody_without_and_keeps_proportions(wanted, limit):
    given_ = fit(wanted, limit)
    assert all(1 <= g <= w for g, w in zip(given_, wanted, strict=True))
    assert sum(given_) <= max(limit, len(wanted))
    if sum(wanted) <= limit:
        assert given_ == tuple(wanted)
    elif limit >= len(wanted):
        assert sum(given_) == limit
        if min(w * limit / sum(wanted) for w in wanted) >= 1:
            assert all(abs(g - w * limit / sum(wanted)) <= 1 for g, w in zip(given_, wanted, strict=True))
