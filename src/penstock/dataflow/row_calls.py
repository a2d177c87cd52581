"""Grain "key": one call for each key, or each firing of it, with tuples as dictionaries.

All calls are made first and what they gave out is made columns of as a whole; only keys for which something failed are
gone through again, call by call. A key's state is written when all is well with it, so going back costs nothing.
"""

import gc
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from penstock.core.arrays import Ints
from penstock.dataflow.calls import CallWork, gallop, is_fatal, smallest
from penstock.dataflow.firing import FiringRule
from penstock.dataflow.key_state import Kept, KeyState, KeyStates
from penstock.dataflow.keyed_state import BadState
from penstock.dataflow.output import BadOutput, Output
from penstock.dataflow.records import KeyQueue
from penstock.dataflow.rows import Positions, Rows

#: Keys whose tuples and states are dictionaries at the same time.
TOGETHER = 1_000


@dataclass(frozen=True)
class Call:
    """The tuples of one call: by port, from where to where in the port's queue."""

    slot: int
    ranges: Mapping[str, tuple[int, int]]

    @property
    def divisible(self) -> tuple[str, int, int] | None:
        """The port and the range of a call whose tuples all came to one port."""
        full = [(port, a, b) for port, (a, b) in self.ranges.items() if b > a]
        return full[0] if len(full) == 1 else None

    def part(self, begin: int, end: int) -> "Call":
        """Some of the tuples of such a call."""
        port, first, _ = self.divisible or ("", 0, 0)
        return Call(self.slot, {**self.ranges, port: (first + begin, first + end)})


def call_rows(work: CallWork) -> None:
    """Hand the tuples to the operator, key by key."""
    # Millions of short-lived dictionaries: looking for cycles among them costs more than making them.
    collects = gc.isenabled()
    gc.disable()
    try:
        _call_rows(work)
    finally:
        if collects:
            gc.enable()


def _call_rows(work: CallWork) -> None:
    calls = _Calls(work)
    bad = calls.all()
    for slot in sorted(bad):
        calls.current = None
        calls.places.pop(slot, None)
        for call in calls.of(slot):
            calls.carefully(call)


class _Calls:
    def __init__(self, work: CallWork) -> None:
        self.work = work
        self.states = None if work.state is None else KeyStates(work.task, work.state)
        #: The state of the key whose calls are being made.
        self.current: KeyState | None = None
        #: Where the last call of each key stands.
        self.places: dict[int, Any] = {}
        self.queues = _queues(work)

    def all(self) -> set[int]:
        """Every call of every key once; the keys for which something failed, which have left no trace."""
        one = len(self.queues) == 1 and self.work.divisible and (self.states is None or self.states.simple)
        bad: set[int] = set()
        for kept, failed in self._one_each() if one else self._one_by_one():
            bad |= self._settled(kept, failed)
        return bad

    def _settled(self, kept: Kept, bad: set[int]) -> set[int]:
        """Check what some keys' calls left and keep it; the keys to go through again."""
        output = self.work.output
        if bad:
            output.forget(bad)
        bad |= self._misfits(kept.without(bad))
        try:
            output.settle()
        except BadOutput as error:
            if not self.work.forgiving or not error.causes:
                raise
            bad |= set(error.causes)
            output.forget(bad)
            output.settle()
        if self.states is not None:
            self.states.write(kept.without(bad))
        return bad

    def _one_by_one(self) -> Iterator[tuple[Kept, set[int]]]:
        """The calls of each key; the states after them, and the keys for which a call failed."""
        bad: set[int] = set()
        done: dict[int, Any] = {}
        for slot in self.slots():
            try:
                done[slot] = self._make(self.of(slot), slot, self.work.output)
            except Exception as error:  # noqa: BLE001 - an operator is user code
                self._forgive(slot, error)
                bad.add(slot)
        yield Kept.of(done if self.states is not None else {}), bad

    def _one_each(self) -> Iterator[tuple[Kept, set[int]]]:
        """The same where a key has one call: most operators, so that nothing is done for a call that can be done for all.

        Some keys at a time: the dictionaries and rows of all of them would not stay in the processor's cache.
        """
        (queue,) = self.queues.values()
        ports = list(self.work.output.by_row.values())
        self.work.output.expect_rows()
        used: list[Any] = []
        for begin in range(0, len(queue.present), TOGETHER):
            block = slice(begin, begin + TOGETHER)
            slots, bad = queue.present[block], set[int]()
            states = self._states(slots, used)
            for port, ends in zip(
                ports, self._calls_of(slots, queue.records_of(block), states, bad), strict=True
            ):
                port.ended(queue.last_places[block], slots, ends)
            kept = Kept.of({}) if self.states is None else self._encoded(slots, states, bad)
            used = [] if bad else states
            yield kept, bad

    def _states(self, slots: list[int], used: list[Any]) -> list[Any]:
        return [None] * len(slots) if self.states is None else self.states.read_all(np.array(slots), used)

    def _calls_of(
        self, slots: list[int], tuples: list[Any], states: list[Any], bad: set[int]
    ) -> list[list[int]]:
        """One call for each of some keys; by port how many rows there were before the first and after each of them."""
        output, call = self.work.output, self.work.task.operator.call
        ends = [[port.count()] for port in output.by_row.values()]
        (note, count), *others = _notes(output, ends)
        for slot, given, state in zip(slots, tuples, states, strict=True):
            try:
                call(given, state, output)
            except Exception as error:  # noqa: BLE001 - an operator is user code
                self._forgive(slot, error)
                bad.add(slot)
            note(count())
            if others:
                for note_too, count_too in others:
                    note_too(count_too())
        return ends

    def _encoded(self, slots: list[int], states: list[Any], bad: set[int]) -> Kept:
        """States after the calls; keys with other fields than declared join the bad ones."""
        assert self.states is not None
        if bad:
            chosen = [slot not in bad for slot in slots]
            slots, states = list(compress(slots, chosen)), list(compress(states, chosen))
        try:
            return self.states.encoded_all(slots, states)
        except BadState as error:
            strange = {s: self._strange(state) for s, state in zip(slots, states, strict=True)}
            for slot in (s for s, why in strange.items() if why):
                self._forgive(slot, error)
                bad.add(slot)
            return self._encoded(slots, states, bad)

    def _strange(self, state: KeyState) -> bool:
        assert self.states is not None
        try:
            self.states.encoded(state)
        except BadState:
            return True
        return False

    def slots(self) -> list[int]:
        """The keys at hand, or the tuples of a stateless operator in order of arrival."""
        return sorted({slot for queue in self.queues.values() for slot in queue.present})

    def of(self, slot: int) -> Iterator[Call]:
        """The calls of one key in order."""
        ranges = {p: q.range(slot) for p, q in self.queues.items()}
        if self.work.taken is None:
            yield from self._in_order(slot, ranges)
            return
        left = dict(ranges)
        while (given := self._next(self._rule(slot), left)) is not None:
            left = {p: (given[p][1], end) for p, (_, end) in left.items()}
            yield Call(slot, given)
        for port, (begin, _) in ranges.items():
            self.work.taken[port][slot] = left[port][0] - begin

    def _rule(self, slot: int) -> FiringRule:
        """The rule that is in force for a key: the operator may have changed it in its last call."""
        assert self.states is not None
        return self.states.rule(slot) if self.current is None else self.current.rule

    def _next(
        self, rule: FiringRule, left: Mapping[str, tuple[int, int]]
    ) -> dict[str, tuple[int, int]] | None:
        """What the next call gets of the tuples that are left; None if there are not enough."""
        enough = [p for p, (a, b) in left.items() if b - a >= rule.of(p)]
        if not enough or (rule.mode == "all" and len(enough) < len(left)):
            return None
        if rule.exact and rule.mode == "any":  # the port whose tuples were complete first
            enough = [min(enough, key=lambda p: self.queues[p].places[left[p][0] + rule.of(p) - 1])]
        return {
            p: (a, a if p not in enough else a + rule.of(p) if rule.exact else b)
            for p, (a, b) in left.items()
        }

    def _in_order(self, slot: int, ends: Mapping[str, tuple[int, int]]) -> Iterator[Call]:
        """As many tuples of one port as came before the first of another, and so on: arrival order is kept."""
        if sum(b > a for a, b in ends.values()) == 1:
            yield Call(slot, ends)
            return
        ports = list(ends)
        at = np.concatenate([np.arange(a, b) for a, b in ends.values()])
        whose = np.concatenate([np.full(b - a, i) for i, (a, b) in enumerate(ends.values())])
        positions = np.concatenate([self.queues[p].positions[a:b] for p, (a, b) in ends.items()])
        order = _by_arrival(positions, whose)
        at, whose = at[order], whose[order]
        cuts = np.flatnonzero(np.r_[True, whose[1:] != whose[:-1], True])
        nothing = {p: (a, a) for p, (a, _) in ends.items()}
        for begin, end in itertools.pairwise(cuts.tolist()):
            port = ports[whose[begin]]
            yield Call(slot, {**nothing, port: (int(at[begin]), int(at[end - 1]) + 1)})

    def carefully(self, call: Call) -> None:
        """One call, and on parts of its tuples where it fails, each with its output looked at."""
        error = self._attempt(call)
        if error is None:
            return
        part = call.divisible
        if not self.work.divisible or part is None or part[2] - part[1] < 2:
            self.work.put_aside(self._numbers(call), error)
            return
        gallop(
            part[2] - part[1],
            lambda begin, end: self._attempt(call.part(begin, end)),
            lambda at, why: self.work.put_aside(self._numbers(call.part(at, at + 1)), why),
        )

    def _attempt(self, call: Call) -> Exception | None:
        output = self.work.output
        try:
            values = self._make([call], call.slot, output)
            if self.states is not None:
                self.states.check(Kept.of({call.slot: values}))
            output.settle()
        except Exception as error:
            if is_fatal(error):
                raise
            output.forget({call.slot})
            self.current = None
            return error
        if self.states is not None:
            self.states.write(Kept.of({call.slot: values}))
        return None

    def _make(self, calls: Iterable[Call], slot: int, output: Output) -> Any:
        """Call the operator; the state after it, checked, but not yet written."""
        operate = self.work.task.operator.call
        self.current = values = None if self.states is None else self.states.read(slot)
        for call in calls:
            given = {p: self.queues[p].listed[a:b] for p, (a, b) in call.ranges.items()}
            output.expect(self._place(call), single=True, call=slot)
            operate(next(iter(given.values())) if len(given) == 1 else given, values, output)
        return None if self.states is None or values is None else self.states.encoded(values)

    def _place(self, call: Call) -> Any:
        """Where a call stands: at the last of its tuples to arrive, and not before the calls before it."""
        last = [self.queues[p].places[b - 1] for p, (a, b) in call.ranges.items() if b > a]
        place = self.places[call.slot] = max([*last, self.places.get(call.slot, last[0])])
        return place

    def _numbers(self, call: Call) -> dict[str, list[int]]:
        return {p: self.queues[p].order[a:b].tolist() for p, (a, b) in call.ranges.items() if b > a}

    def _misfits(self, kept: Kept) -> set[int]:
        """Keys whose state does not fit its columns."""
        try:
            self._check(kept)
        except BadState:
            if not self.work.forgiving:
                raise
            bad = {
                slot
                for slot, *values in zip(kept.slots, *kept.columns, strict=True)
                if self._misfit(slot, values)
            }
            if not bad:
                raise
            self.work.output.forget(bad)
            return bad
        return set()

    def _misfit(self, slot: int, values: list[Any]) -> bool:
        try:
            self._check(Kept([slot], [[value] for value in values]))
        except BadState:
            return True
        return False

    def _check(self, kept: Kept) -> None:
        if self.states is not None:
            self.states.check(kept)

    def _forgive(self, slot: int, error: Exception) -> None:
        """Go on where tuples may be put aside; otherwise end the run with the smallest part that fails."""
        if is_fatal(error):
            raise error
        if self.work.forgiving:
            return
        for call in self.of(slot):
            if self._fails(call):
                self.work.fail(self._numbers(self._culprit(call)), error)
        self.work.fail({p: q.order[slice(*q.range(slot))].tolist() for p, q in self.queues.items()}, error)

    def _culprit(self, call: Call) -> Call:
        """The smallest part of a call that fails."""
        part = call.divisible
        if not self.work.divisible or part is None:
            return call
        return call.part(*smallest(part[2] - part[1], lambda a, b: self._fails(call.part(a, b))))

    def _fails(self, call: Call) -> bool:
        trial = Output(self.work.name, self.work.task.context.outputs)
        try:
            self._make([call], call.slot, trial)
        except Exception:  # noqa: BLE001 - an operator is user code
            return True
        return False


def _notes(output: Output, ends: list[list[int]]) -> list[tuple[Callable[[int], None], Callable[[], int]]]:
    """How to note, port by port, how many rows were given out; there is always one to begin with."""
    ports = output.by_row.values()
    made = [(noted.append, port.count) for noted, port in zip(ends, ports, strict=True)]
    return made or [(lambda _: None, lambda: 0)]


def _queues(work: CallWork) -> dict[str, KeyQueue]:
    """The tuples of each port by key; of a stateless operator each for itself."""
    if work.state is not None:
        return {port: KeyQueue(rows, rows.slots, len(work.state)) for port, rows in work.rows.items()}
    alone, count = _each_alone(work.rows), sum(len(rows) for rows in work.rows.values())
    return {port: KeyQueue(rows, alone[port], count) for port, rows in work.rows.items()}


def _each_alone(rows: Mapping[str, Rows]) -> dict[str, Ints]:
    """A number of its own for every tuple of all ports, in order of arrival."""
    positions = np.concatenate([r.positions for r in rows.values()])
    whose = np.concatenate([np.full(len(r), at) for at, r in enumerate(rows.values())])
    rank = np.empty(len(whose), dtype=np.int64)
    rank[_by_arrival(positions, whose)] = np.arange(len(whose))
    return {port: rank[whose == at] for at, port in enumerate(rows)}


def _by_arrival(positions: Positions, whose: Ints) -> Ints:
    """The order of arrival of tuples of several ports; of those at one position the first port's come first."""
    columns = positions.T[::-1] if positions.ndim > 1 else [positions]
    return np.lexsort((whose, *columns))
