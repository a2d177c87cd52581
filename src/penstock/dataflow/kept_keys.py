"""Keys that must stay as they are: rows that go on to an operator of the same keys are not routed anew.

An operator that gives such rows another key, without saying so with ``changes=``, would have the state of one key in
two places as soon as there is a second replica. It is found at the first such row, however many replicas there are: a
row must have the key of the row that caused it.
"""

from collections.abc import Mapping

import numpy as np

from penstock.core.arrays import Ints
from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.keys import Hashes, hash_keys
from penstock.dataflow.regions import KeyTypes, Regions, key_types
from penstock.dataflow.rows import Chunk, Positions

Keys = tuple[str, ...]
_By = tuple[Keys, KeyTypes]


def kept_keys(graph: Graph, regions: Regions) -> dict[str, dict[str, Keys]]:
    """Operator -> output port -> the key columns that rows from there must carry on unchanged."""
    by = {name: _by(graph, regions, name) for name in graph.nodes}
    carried: dict[str, set[_By]] = {}
    for name in graph.order():
        stateless = graph.nodes[name].spec.kind == "stateless"
        before = set().union(*(carried.get(f, set()) for f in graph.feeders(name))) if stateless else set()
        own = by[name]
        carried[name] = before if own is None else {own}
    found: dict[str, dict[str, Keys]] = {name: {} for name in graph.nodes}
    for name, node in graph.nodes.items():
        for port in node.spec.outputs:
            for keys, _ in carried[name] & _wanted(graph, by, name, port):
                found[name][port] = keys
    return found


def _by(graph: Graph, regions: Regions, name: str) -> _By | None:
    """What the rows that come to an operator are routed by."""
    keys = regions.of(name).keys
    return (keys, key_types(graph, name, keys)) if keys else None


def _wanted(graph: Graph, by: Mapping[str, _By | None], name: str, port: str) -> set[_By]:
    """What the rows of a port are taken by further on, as long as nothing says that it changes these keys."""
    wanted: set[_By] = set()
    for out, reader, _ in graph.readers(name):
        own = by[reader]
        if out != port:
            continue
        if own is not None:
            wanted.add(own)
        elif graph.nodes[reader].spec.kind == "stateless":
            for further in graph.nodes[reader].spec.outputs:
                wanted |= _wanted(graph, by, reader, further)
    changes = set(graph.nodes[name].spec.changes)
    return {one for one in wanted if not set(one[0]) & changes}


def check_kept(operator: str, keys: Keys, arrived: Mapping[str, Chunk], port: str, out: Chunk) -> Hashes:
    """Raise at the first row that has another key than the row that caused it; the hashes of the keys that stayed."""
    before = np.concatenate([hash_keys(c.table, keys) for c in arrived.values()])
    causes = _numbers(np.concatenate([c.positions for c in arrived.values()]))
    hashes = hash_keys(out.table, keys)
    wrong = _strangers(causes, before, _numbers(out.positions), hashes)
    if len(wrong):
        row = out.table.slice(int(wrong[0]), 1).select(list(keys)).to_pylist()[0]
        raise PenstockError(
            f"Operator '{operator}' changes the key ({', '.join(keys)}) of the rows it gives out on port '{port}', "
            f"here to {', '.join(repr(v) for v in row.values())}; say so with changes={list(keys)}."
        )
    return hashes


def _numbers(positions: Positions) -> Ints:
    return positions if positions.ndim == 1 else positions[:, 1]


def _strangers(causes: Ints, before: Hashes, numbers: Ints, hashes: Hashes) -> Ints:
    """The rows whose key none of the rows at their position had."""
    if len(causes) == len(numbers) and (before == hashes).all() and (causes == numbers).all():
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(causes, kind="stable")
    at = order[np.minimum(np.searchsorted(causes[order], numbers), len(order) - 1)]
    wrong = np.flatnonzero((causes[at] != numbers) | (before[at] != hashes))
    if not len(wrong):
        return wrong
    # Several rows may share a position, and tuples that waited have none: look among all keys of the position, or of all.
    have: dict[int, set[int]] = {}
    for number, key in zip(causes.tolist(), before.tolist(), strict=True):
        have.setdefault(number, set()).add(key)
    every = set(before.tolist())
    asked = zip(wrong.tolist(), numbers[wrong].tolist(), hashes[wrong].tolist(), strict=True)
    strange = [row for row, at, key in asked if key not in (every if at < 0 else have.get(at, ()))]
    return np.array(strange, dtype=np.int64)
