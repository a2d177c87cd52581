import numpy as np
import oracles
from hypothesis import given, settings
from strategies import pairs_of_point_sets

from penstock.preference.blocks import filled_store, first_dominator, lanes, new_store, put
from penstock.preference.grid import encode, fitted, padded


@settings(max_examples=80, deadline=None)
@given(pairs_of_point_sets())
def test_the_first_dominator_in_the_store_is_found(pair):
    asked, stored = pair
    count, width = stored.shape
    if not count:
        return
    depth, step = padded(width), lanes(width)
    grid = fitted(stored, np.arange(count), count)
    codes, own = np.zeros(count * depth, dtype=np.uint8), np.zeros(len(asked) * depth, dtype=np.uint8)
    encode(stored, np.arange(count), count, grid, codes)
    encode(asked, np.arange(len(asked)), len(asked), grid, own)
    store = filled_store(stored, codes, np.arange(count))
    one_by_one = new_store(count, width)
    for place in range(count):
        put(*one_by_one, place, codes, place * depth, stored.reshape(-1), place * width, width)
    for a, b in zip(store, one_by_one, strict=True):
        np.testing.assert_array_equal(a, b)
    beats = oracles.dominance(stored, asked)
    for i in range(len(asked)):
        row = np.zeros(step)
        row[:width] = asked[i]
        found = first_dominator(*store, count, own, i * depth, row, 0, depth, step)
        assert found == (int(np.argmax(beats[:, i])) if beats[:, i].any() else -1)
