"""``check_preference``: proves of a preference what the runtime relies on.

Rows are known by their ids in here, since a result is a set of rows. For random sets of points with many ties:

- *rows of the set*: ``select`` and ``merge`` give sorted row numbers, each once;
- *idempotence*: selecting from a partial result keeps all of it, and merging it with nothing changes nothing;
- *merge is select of the union*: so it does not matter how rows were split into panes and partitions;
- *associativity and commutativity* of ``merge``, as sets of rows;
- *the answer is that of the whole*: from merged partial results the same rows come out as from all rows at once, and,
  where an oracle is given, the rows the oracle names;
- *classes* do not mix.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.preference.partial import Partial, merged
from penstock.preference.points import ranked
from penstock.preference.preference import Preference

Points = Floats
Oracle = Callable[[Points], Any]


def check_preference(preference: Preference, oracle: Oracle | None = None, seeds: int = 20) -> None:
    """Raise AssertionError where a preference breaks a rule; ``oracle(points)`` names the rows of the answer.

    >>> from penstock.preference.builders import minimize, skyline_of
    >>> check_preference(skyline_of(minimize("a"), minimize("b")), seeds=3)
    """
    width = len(ranked(preference.attributes))
    assert width, "the preference has no ranked attribute"
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        whole = _rows(rng, int(rng.integers(0, 60)), width)
        _check_select(preference, whole)
        parts = [_selected(preference, part) for part in _split(rng, whole, 3)]
        _check_merge(preference, whole, parts)
        _check_answer(preference, whole, parts, oracle)
        _check_classes(preference, whole, rng)
    empty = _rows(np.random.default_rng(0), 0, width)
    assert len(preference.select(empty.points)) == 0, "select of no rows must give no rows"


def _check_select(preference: Preference, whole: Partial) -> None:
    kept = np.asarray(preference.select(whole.points))
    assert kept.ndim == 1, "select must give one axis of row numbers"
    assert (np.diff(kept) > 0).all(), "select must give ascending row numbers, each once"
    assert not len(kept) or (kept[0] >= 0 and kept[-1] < len(whole.ids)), "select must give rows of the set"
    again = preference.select(whole.points[kept])
    assert len(again) == len(kept), "select must keep all of a partial result (idempotence)"


def _check_merge(preference: Preference, whole: Partial, parts: list[Partial]) -> None:
    a, b, c = parts
    ab, bc = merged(preference, a, b), merged(preference, b, c)
    left, right = merged(preference, ab, c), merged(preference, a, bc)
    assert _ids(ab) == _ids(merged(preference, b, a)), "merge must not depend on the order of its sides"
    assert _ids(left) == _ids(right), "merge must be associative"
    assert _ids(left) == _ids(_selected(preference, whole)), "merge must equal select of all the rows"
    nothing = a.take(np.zeros(0, dtype=np.int64))
    assert _ids(merged(preference, a, nothing)) == _ids(a), "merging with nothing must change nothing"


def _check_answer(
    preference: Preference, whole: Partial, parts: list[Partial], oracle: Oracle | None
) -> None:
    joined = merged(preference, merged(preference, parts[0], parts[1]), parts[2])
    joined = joined.take(np.argsort(joined.ids))
    rows, extras = preference.answer(joined.points)
    direct, _ = preference.answer(whole.points[preference.select(whole.points)])
    assert len(rows) == len(direct), "the answer must not depend on how the rows were split"
    assert set(extras) == set(preference.extra_columns), "answer must give the extra columns it names"
    assert all(len(values) == len(rows) for values in extras.values()), "extra columns need one value a row"
    if oracle is not None:
        want = sorted(int(row) for row in oracle(whole.points))
        assert sorted(joined.ids[rows].tolist()) == want, "the answer differs from the oracle's"


def _check_classes(preference: Preference, whole: Partial, rng: np.random.Generator) -> None:
    classes = rng.integers(0, 3, len(whole.ids))
    kept = preference.select(whole.points, classes)
    want = [np.flatnonzero(classes == c) for c in range(3)]
    apart = np.concatenate([rows[preference.select(whole.points[rows])] for rows in want])
    assert kept.tolist() == sorted(apart.tolist()), "select must treat classes apart"
    half = len(whole.ids) // 2
    sides = [_selected(preference, Partial(whole.ids[s], whole.points[s], classes[s])) for s in _halves(half)]
    assert _ids(merged(preference, *sides)) == set(whole.ids[kept].tolist()), "merge must treat classes apart"


def _halves(half: int) -> tuple[slice, slice]:
    return slice(0, half), slice(half, None)


def _rows(rng: np.random.Generator, count: int, width: int) -> Partial:
    """Few distinct values, so that ties and equal rows are common."""
    return Partial(np.arange(count), rng.integers(0, 6, (count, width)).astype(np.float64))


def _split(rng: np.random.Generator, whole: Partial, parts: int) -> list[Partial]:
    where = rng.integers(0, parts, len(whole.ids))
    return [whole.take(np.flatnonzero(where == part)) for part in range(parts)]


def _selected(preference: Preference, part: Partial) -> Partial:
    return part.take(np.asarray(preference.select(part.points, part.classes), dtype=np.int64))


def _ids(part: Partial) -> set[int]:
    return set(part.ids.tolist())
