"""Random flows that change between two starts, with timers, times to live, replicas that come and go and kills.

What they give out is compared with :class:`Loop`, plain Python that knows nothing of the runtime: dictionaries by key, tuples in
order of arrival.
"""

import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from dying import Killed, dying_at
from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.regions import find_regions
from penstock.testing.flow_run import start_in_process

ROW = {"k": int, "j": int, "v": int, "t": float}
DEFAULTS = {"a": 0, "b": 10, "c": -5}
PAUSE = 5.0
SHORT, LONG = 20.0, 1000.0
CRASHES = (None, None, "state-written", "before-commit", "during-commit", "after-commit")


@dataclass(frozen=True)
class Node:
    """An operator of a random flow and all that may change about it."""

    name: str
    parent: str
    kind: str
    columns: frozenset[str] = frozenset("a")
    keys: tuple[str, ...] = ("k",)
    grain: str = "key"
    ttl: float | None = None

    def made(self):
        return {"tally": tally, "session": session}.get(self.kind, stateless)(self)


def stateless(node):
    def odd(rows, output):
        at = np.flatnonzero(rows["v"] % 2 == 1)
        output.emit(rows.table.take(pa.array(at)), at=rows.positions[at])

    def double(rows, output):
        at = np.repeat(np.arange(len(rows)), 2)
        output.emit(rows.table.take(pa.array(at)), at=rows.positions[at])

    def swap(rows, output):
        output.emit({**{n: rows.column(n) for n in "vt"}, "k": rows.column("j"), "j": rows.column("k")})

    changes = ["k", "j"] if node.kind == "swap" else None
    return operator(changes=changes)({"odd": odd, "double": double, "swap": swap}[node.kind])


def tally(node):
    names = sorted(node.columns)

    def by_key(rows, state, output):
        for row in rows:
            for c in names:
                state[c] += 1 + row["v"] % 3
            output.emit({**row, "v": (row["v"] + sum(state.values())) % 1009})

    def by_table(rows, state, output):
        out = []
        for slot, v in zip(rows.slots.tolist(), rows["v"].tolist(), strict=True):
            for c in names:
                state[c][slot] += 1 + v % 3
            out.append((v + sum(int(state[c][slot]) for c in names)) % 1009)
        output.emit({**{n: rows.column(n) for n in "kjt"}, "v": out})

    ttl = None if node.ttl is None else ("t", node.ttl)
    state = {c: (int, DEFAULTS[c]) for c in names}
    made = operator(keys=node.keys, state=state, grain=node.grain, ttl=ttl, output=ROW)
    return made(by_key if node.grain == "key" else by_table)


def session(node):
    names = sorted(node.columns)

    def rows_of_key(rows, state, output):
        for row in rows:
            for c in names:
                state[c] += 1
            state["last"] = max(state["last"], row["t"])
        state.timer(state["last"] + PAUSE)

    def over(key, state, output):
        total = sum(state[c] for c in names)
        output.emit({"k": key["k"], "j": 0, "v": total % 1009, "t": state["last"]})
        state.clear()

    state = {**{c: (int, DEFAULTS[c]) for c in names}, "last": float}
    return operator(keys="k", state=state, grain="key", time="t", on_timer=over, output=ROW)(rows_of_key)


def graph_of(version):
    graph = Graph("evolving")
    streams = {f"in{i}": graph.source(f"in{i}", ROW) for i in range(2)}
    parents = {node.parent for node in version}
    for node in version:
        streams[node.name] = streams[node.parent].through(node.made(), name=node.name)
        if node.name not in parents:
            streams[node.name].sink(f"sink-{node.name}")
    for source in ("in0", "in1"):
        if source not in parents:
            streams[source].through(operator()(lambda rows, output: None), name=f"unused-{source}").sink(
                source
            )
    return graph


@dataclass
class Kept:
    """The state of one key; ``time`` is None until a time to live knows of it."""

    values: dict
    time: float | None = None
    timer: float | None = None


@dataclass
class Loop:
    """What a flow that changes gives out, in plain Python."""

    version: tuple = ()
    keys: dict = field(default_factory=dict)
    clocks: dict = field(default_factory=dict)
    since: dict = field(default_factory=dict)
    out: dict = field(default_factory=dict)

    def feed(self, version, batch):
        self.evolve(version)
        given, first = {}, 0
        for source in ("in0", "in1"):
            given[source] = [(first + i, row) for i, row in enumerate(batch[source])]
            first += len(batch[source])
        parents = {node.parent for node in version}
        for node in version:
            rows = getattr(self, node.kind)(node, given[node.parent])
            given[node.name] = sorted(
                rows, key=lambda item: item[0]
            )  # stable: those of one place keep their order
            if node.name not in parents:
                self.out.setdefault(node.name, []).extend(row for _, row in given[node.name])

    def evolve(self, version):
        before = {node.name: node for node in self.version}
        for name in before.keys() - {node.name for node in version}:
            for kept in (self.keys, self.clocks, self.since):
                kept.pop(name, None)
        for node in version:
            for kept in self.keys.get(node.name, {}).values():
                others = {"last": kept.values["last"]} if node.kind == "session" else {}
                kept.values = {c: kept.values.get(c, DEFAULTS[c]) for c in node.columns} | others
            if (
                node.kind == "tally"
                and before.get(node.name, node).ttl != node.ttl
                and (node.ttl is None or before[node.name].ttl is None)
            ):
                self.clocks.pop(node.name, None)
                self.since.pop(node.name, None)
                for kept in self.keys.get(node.name, {}).values():
                    kept.time = None
        self.version = version

    def odd(self, node, rows):
        return [(at, row) for at, row in rows if row["v"] % 2 == 1]

    def double(self, node, rows):
        return [item for item in rows for _ in range(2)]

    def swap(self, node, rows):
        return [(at, {**row, "k": row["j"], "j": row["k"]}) for at, row in rows]

    def tally(self, node, rows):
        keys, clock = self.keys.setdefault(node.name, {}), self.clocks.get(node.name)
        out, last = [], {}
        for at, row in rows:
            last[tuple(row[c] for c in node.keys)] = at
        for key in last:
            kept = keys.get(key)
            if kept is not None and node.ttl is not None and clock is not None:
                began = self.since[node.name] if kept.time is None else kept.time
                if began < clock - node.ttl:
                    del keys[key]
                else:
                    kept.time = began
        for at, row in rows:
            key = tuple(row[c] for c in node.keys)
            kept = keys.setdefault(key, Kept({c: DEFAULTS[c] for c in node.columns}))
            for c in node.columns:
                kept.values[c] += 1 + row["v"] % 3
            if node.ttl is not None:
                kept.time = row["t"] if kept.time is None else max(kept.time, row["t"])
            made = {**row, "v": (row["v"] + sum(kept.values.values())) % 1009}
            out.append((last[key] if node.grain == "key" else at, made))
        if node.ttl is not None:
            self.tick(node, rows)
        return out

    def session(self, node, rows):
        keys, clock, out = self.keys.setdefault(node.name, {}), self.clocks.get(node.name), []
        for key, kept in list(keys.items()):
            if clock is not None and kept.timer <= clock:
                total = sum(kept.values[c] for c in node.columns)
                out.append((-1, {"k": key, "j": 0, "v": total % 1009, "t": kept.values["last"]}))
                del keys[key]
        for _, row in rows:
            fresh = {**{c: DEFAULTS[c] for c in node.columns}, "last": 0.0}
            kept = keys.setdefault(row["k"], Kept(fresh))
            for c in node.columns:
                kept.values[c] += 1
            kept.values["last"] = max(kept.values["last"], row["t"])
            kept.timer = kept.values["last"] + PAUSE
        self.tick(node, rows)
        return out

    def tick(self, node, rows):
        if rows:
            newest = max(row["t"] for _, row in rows)
            self.clocks[node.name] = max(newest, self.clocks.get(node.name, newest))
            self.since.setdefault(node.name, self.clocks[node.name])


def below_session(version, name):
    nodes = {node.name: node for node in version}
    while name in nodes:
        if nodes[name].kind == "session":
            return True
        name = nodes[name].parent
    return False


@st.composite
def nodes(draw, version, name):
    """A new operator behind any other; what timers give out has no order across keys, so nothing behind it changes keys."""
    parent = draw(st.sampled_from(["in0", "in1", *(node.name for node in version)]))
    kinds = (
        ["odd", "tally", "tally"]
        if below_session(version, parent)
        else ["odd", "double", "swap", "tally", "tally", "session"]
    )
    keys = draw(st.sampled_from([("k",), ("k", "j")]))
    return Node(
        name, parent, draw(st.sampled_from(kinds)), draw(st.sets(st.sampled_from("abc"), min_size=1).map(frozenset)),
        keys, "table" if len(keys) > 1 else draw(st.sampled_from(["key", "table"])), draw(st.sampled_from([None, LONG, SHORT])),
    )  # fmt: skip


@st.composite
def changed(draw, version, number):
    """The same flow with one thing changed."""
    leaves = [n for n in version if n.name not in {m.parent for m in version}]
    with_state = [n for n in version if n.kind in ("tally", "session")]
    what = draw(st.sampled_from(["add", "remove", "columns", "columns", "ttl", "grain", "nothing"]))
    if what == "add":
        return (*version, draw(nodes(version, f"op{number}")))
    if what == "remove" and len(version) > 1:
        gone = draw(st.sampled_from(leaves))
        return tuple(n for n in version if n is not gone)
    if not with_state or what not in ("columns", "ttl", "grain"):
        return version
    node = draw(st.sampled_from(with_state))
    new = {
        "columns": {"columns": draw(st.sets(st.sampled_from("abc"), min_size=1).map(frozenset))},
        # Once short, it stays so: whether what had expired is still there when it gets longer is not promised.
        "ttl": {"ttl": node.ttl if node.ttl == SHORT else draw(st.sampled_from([None, LONG, SHORT]))},
        "grain": {"grain": draw(st.sampled_from(["key", "table"])) if len(node.keys) == 1 and node.kind == "tally" else node.grain},
    }[what]  # fmt: skip
    return tuple(replace(n, **new) if n is node else n for n in version)


def drawn_batch(draw, number):
    row = st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 50), st.integers(0, 8))
    listed = {source: draw(st.lists(row, max_size=8)) for source in ("in0", "in1")}
    return {
        source: [{"k": k, "j": j, "v": v, "t": 10.0 * number + t} for k, j, v, t in rows]
        for source, rows in listed.items()
    }


def as_tables(batch):
    schema = pa.schema([("k", pa.int64()), ("j", pa.int64()), ("v", pa.int64()), ("t", pa.float64())])
    return {source: pa.Table.from_pylist(rows, schema) for source, rows in batch.items()}


def started(version, folder, number):
    run = start_in_process(graph_of(version), folder, groups=8)
    run._next = number
    return run


def only_regions(sentence):
    """What may be refused here: an operator whose keys would be spread by others, with the operators before it."""
    assert "cannot be carried over: its keys were spread by" in sentence
    assert "penstock state migrate CHECKPOINT --reset op" in sentence


def given_out(folder, name):
    files = sorted(Path(folder, "out", f"sink-{name}").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def in_order(rows, keys):
    found = {}
    for row in rows:
        found.setdefault(tuple(row[c] for c in keys), []).append(tuple(row[c] for c in "kjvt"))
    return found


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_random_flows_that_change_go_on_as_plain_loops_would(data):
    draw, loop, number, every = data.draw, Loop(), 0, {}
    version = (draw(nodes((), "op0")),)
    for at in range(1, draw(st.integers(1, 4))):
        version = (*version, draw(nodes(version, f"op{at}")))
    with tempfile.TemporaryDirectory() as folder:
        for start in range(draw(st.integers(2, 4))):
            wanted = draw(changed(version, 10 + start)) if start else version
            try:
                run = started(wanted, folder, number)
                version = wanted
            except PenstockError as error:  # the flow as it was still goes on
                only_regions(str(error))
                run = started(version, folder, number)
            every |= {node.name: node for node in version}
            for _ in range(draw(st.integers(1, 3))):
                regions = [r.name for r in find_regions(graph_of(version)) if r.replicable]
                if regions and draw(st.booleans()):
                    run.rescale(replicas={draw(st.sampled_from(regions)): draw(st.integers(1, 3))})
                batch, point = drawn_batch(draw, number), draw(st.sampled_from(CRASHES))
                try:
                    with dying_at(point, number):
                        run.feed(as_tables(batch))
                except Killed:
                    run.abandon()
                    run = started(version, folder, number)
                    run.feed(as_tables(batch))  # does nothing where the batch was committed before the kill
                loop.feed(version, batch)
                number += 1
            run.abandon() if draw(st.booleans()) else run.finish()
        run = started(version, folder, number)  # publishes what a kill left to be published
        run.finish()
        for name, node in every.items():
            seen, right = given_out(folder, name), loop.out.get(name, [])
            whole = [Counter(tuple(row[c] for c in "kjvt") for row in rows) for rows in (seen, right)]
            assert whole[0] == whole[1], name
            if node.kind in ("tally", "session"):
                assert in_order(seen, node.keys) == in_order(right, node.keys), name
