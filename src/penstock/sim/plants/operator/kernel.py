"""The compiled loop of the partitioned-stateful operator: splitter, bounded queues, replicas, pending tuples.

The splitter takes triggers in order. It must wait while the queue of the replica it sends to is full (back-pressure):
a trigger can be sent once the one ``capacity`` places before it in that queue has left. Replicas serve in order:

    sent_i  = max(arrival_i, splitter free, departure of the trigger capacity places before it)
    start_i = max(sent_i, replica free),   departure_i = start_i + ticks_i / frequency

The loop stops at the first trigger that would be sent after ``until``, so that a later change of the configuration
holds for it. Migration protocols (MPC 4.2, 5.2.2): under MP a replica sets tuples of keys whose state is not there yet
aside and goes on; under S-BLK the splitter holds all tuples of moving keys back and gives them out when all is moved;
R-BLK needs nothing here, its replicas are simply not free before their state is there. Tuples of a key are served in
their order under all of them. A replica whose buffer of tuples set aside is full waits for the next state to come, and
a splitter whose buffer is full waits until all is moved.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Floats, Ints
from penstock.core.jit import jit

#: Places of the numbers in the ``clock`` array: when the splitter is free, when all state is moved, tuples held back,
#: and the time the splitter spent blocked by full queues.
SPLITTER, MOVED, HELD, BLOCKED = 0, 1, 2, 3


class OperatorWork(NamedTuple):
    """What the replicas work on: triggers, where their state is, who is free when, tuples set aside, results."""

    keys: NDArray[np.int32]
    ticks: Floats
    available: Floats
    free: Floats
    pending: Ints
    waiting: Ints
    starts: Floats
    departures: Floats
    passed: Ints


class Splitter(NamedTuple):
    """What the splitter goes by: the routing, the replicas' queues, tuples held back, its clock."""

    routing: Ints
    queues: Floats
    places: Ints
    held: Ints
    clock: Floats
    replicas: NDArray[np.int16]


@jit
def serve(
    first: int,
    until: float,
    times: Floats,
    keys: NDArray[np.int32],
    ticks: Floats,
    routing: Ints,
    available: Floats,
    moving: NDArray[np.bool_],
    free: Floats,
    queues: Floats,
    places: Ints,
    pending: Ints,
    waiting: Ints,
    held: Ints,
    clock: Floats,
    split_time: float,
    give_time: float,
    per_tick: float,
    starts: Floats,
    departures: Floats,
    replicas: NDArray[np.int16],
    passed: Ints,
) -> int:
    """Serve triggers from ``first`` on as far as they can be sent by ``until``; the first one not sent."""
    work = OperatorWork(keys, ticks, available, free, pending, waiting, starts, departures, passed)
    splitter = Splitter(routing, queues, places, held, clock, replicas)
    i = first
    while i < len(times):
        at = max(times[i], clock[SPLITTER])
        if clock[HELD] > 0 and at >= clock[MOVED]:
            if max(clock[MOVED], clock[SPLITTER]) > until:
                return i
            _give_out(work, splitter, give_time, per_tick)
            continue
        if at > until:
            break
        key = keys[i]
        if moving[key] and at < clock[MOVED] and clock[HELD] == len(held):
            stuck = min(clock[MOVED], until)
            clock[BLOCKED] += stuck - at
            clock[SPLITTER] = stuck
            if clock[MOVED] > until:
                break
            continue
        if moving[key] and at < clock[MOVED]:
            held[int(clock[HELD])] = i
            clock[HELD] += 1
            clock[SPLITTER] = at + split_time
            i += 1
            continue
        r = routing[key]
        space = queues[r, places[r]]
        if space > until:
            clock[BLOCKED] += until - at
            clock[SPLITTER] = until
            break
        if space > at:
            clock[BLOCKED] += space - at
            at = space
        clock[SPLITTER] = at + split_time
        replicas[i] = r
        now = _catch_up(r, at, work, per_tick)
        while available[key] > now and waiting[r] == pending.shape[1]:
            now = _catch_up(r, _earliest(r, work), work, per_tick)
        if available[key] > now:
            pending[r, waiting[r]] = i
            waiting[r] += 1
            # The place in the queue is given up: the tuple waits in a buffer of its own.
            queues[r, places[r]] = now
        else:
            starts[i] = now
            free[r] = now + ticks[i] * per_tick
            departures[i] = free[r]
            queues[r, places[r]] = free[r]
        places[r] = (places[r] + 1) % queues.shape[1]
        i += 1
    for r in range(len(free)):
        _catch_up(r, until, work, per_tick)
    if clock[HELD] > 0 and max(clock[MOVED], clock[SPLITTER]) <= until:
        _give_out(work, splitter, give_time, per_tick)
    return i


@jit
def _earliest(r: int, work: OperatorWork) -> float:
    """When the state of any of the tuples set aside comes."""
    earliest = np.inf
    for p in range(work.waiting[r]):
        earliest = min(earliest, work.available[work.keys[work.pending[r, p]]])
    return float(earliest)


@jit
def _catch_up(r: int, upto: float, work: OperatorWork, per_tick: float) -> float:
    """Serve what was set aside and can begin by ``upto``, or while the replica is busy; when it is free from then on."""
    while work.waiting[r] > 0:
        earliest = _earliest(r, work)
        if earliest > max(upto, work.free[r]):
            break
        _resume(r, max(earliest, work.free[r]), work, per_tick)
    return float(max(upto, work.free[r]))


@jit
def _resume(r: int, now: float, work: OperatorWork, per_tick: float) -> None:
    """Serve the tuples set aside whose state has come; of a key whose first one must wait on, all do."""
    kept = 0
    # The last entry counts the passes: a key that is marked with this pass was passed over in it.
    work.passed[-1] += 1
    this = work.passed[-1]
    for p in range(work.waiting[r]):
        i = work.pending[r, p]
        key = work.keys[i]
        if work.available[key] <= now and work.passed[key] != this:
            work.starts[i] = now
            now += work.ticks[i] * per_tick
            work.departures[i] = now
        else:
            work.passed[key] = this
            work.pending[r, kept] = i
            kept += 1
    work.free[r] = now
    work.waiting[r] = kept


@jit
def _give_out(work: OperatorWork, splitter: Splitter, give_time: float, per_tick: float) -> None:
    """S-BLK: the splitter empties its buffer, and takes nothing new meanwhile."""
    queues, places, clock = splitter.queues, splitter.places, splitter.clock
    now = max(clock[MOVED], clock[SPLITTER])
    for h in range(int(clock[HELD])):
        i = splitter.held[h]
        r = splitter.routing[work.keys[i]]
        now = max(now + give_time, queues[r, places[r]])
        work.starts[i] = max(now, work.free[r])
        work.free[r] = work.starts[i] + work.ticks[i] * per_tick
        work.departures[i] = work.free[r]
        queues[r, places[r]] = work.free[r]
        places[r] = (places[r] + 1) % queues.shape[1]
        splitter.replicas[i] = r
    clock[SPLITTER] = now
    clock[HELD] = 0
