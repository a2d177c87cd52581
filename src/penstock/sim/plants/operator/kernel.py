"""The compiled loop of the partitioned-stateful operator: splitter, bounded queues, replicas, pending tuples.

The splitter takes triggers in order. It must wait while the queue of the replica it sends to is full (back-pressure):
a trigger can be sent once the one ``capacity`` places before it in that queue has left. Replicas serve in order:

    sent_i  = max(arrival_i, splitter free, departure of the trigger capacity places before it)
    start_i = max(sent_i, replica free),   departure_i = start_i + ticks_i / frequency

The loop stops at the first trigger that would be sent after ``until``, so that a later change of the configuration
holds for it. Migration protocols (MPC 4.2, 5.2.2): under MP a replica sets tuples of keys whose state is not there yet
aside and goes on; under S-BLK the splitter holds all tuples of moving keys back and gives them out when all is moved;
R-BLK needs nothing here, its replicas are simply not free before their state is there.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Places of the numbers in the ``clock`` array: when the splitter is free, when all state is moved, tuples held back,
#: and the time the splitter spent blocked by full queues.
SPLITTER, MOVED, HELD, BLOCKED = 0, 1, 2, 3


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
) -> int:
    """Serve triggers from ``first`` on as far as they can be sent by ``until``; the first one not sent."""
    i = first
    while i < len(times):
        at = max(times[i], clock[SPLITTER])
        if clock[HELD] > 0 and at >= clock[MOVED]:
            if max(clock[MOVED], clock[SPLITTER]) > until:
                return i
            _give_out(
                times,
                keys,
                ticks,
                routing,
                free,
                queues,
                places,
                held,
                clock,
                give_time,
                per_tick,
                starts,
                departures,
                replicas,
            )
            continue
        if at > until:
            break
        key = keys[i]
        if moving[key] and at < clock[MOVED]:
            held[int(clock[HELD])] = i
            clock[HELD] += 1
            clock[SPLITTER] = at + split_time
            i += 1
            continue
        r = routing[key]
        space = queues[r, places[r]]
        if max(at, space) > until:
            break
        if space > at:
            clock[BLOCKED] += space - at
            at = space
        clock[SPLITTER] = at + split_time
        replicas[i] = r
        now = max(at, free[r])
        now = _resume(r, now, keys, ticks, available, free, pending, waiting, per_tick, starts, departures)
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
        if waiting[r] > 0:
            _flush(r, until, keys, ticks, available, free, pending, waiting, per_tick, starts, departures)
    if clock[HELD] > 0 and max(clock[MOVED], clock[SPLITTER]) <= until:
        _give_out(
            times,
            keys,
            ticks,
            routing,
            free,
            queues,
            places,
            held,
            clock,
            give_time,
            per_tick,
            starts,
            departures,
            replicas,
        )
    return i


@jit
def _resume(
    r: int,
    now: float,
    keys: NDArray[np.int32],
    ticks: Floats,
    available: Floats,
    free: Floats,
    pending: Ints,
    waiting: Ints,
    per_tick: float,
    starts: Floats,
    departures: Floats,
) -> float:
    """Serve the tuples set aside whose state has come; when the replica is free then."""
    kept = 0
    for p in range(waiting[r]):
        i = pending[r, p]
        if available[keys[i]] <= now:
            starts[i] = now
            now += ticks[i] * per_tick
            departures[i] = now
        else:
            pending[r, kept] = i
            kept += 1
    if kept < waiting[r]:
        free[r] = now
    waiting[r] = kept
    return now


@jit
def _flush(
    r: int,
    until: float,
    keys: NDArray[np.int32],
    ticks: Floats,
    available: Floats,
    free: Floats,
    pending: Ints,
    waiting: Ints,
    per_tick: float,
    starts: Floats,
    departures: Floats,
) -> None:
    """At the end of a stretch: tuples whose state has come by then need not wait for another tuple to arrive."""
    for _ in range(waiting[r]):
        earliest = np.inf
        for p in range(waiting[r]):
            earliest = min(earliest, available[keys[pending[r, p]]])
        now = max(earliest, free[r])
        if now > until:
            return
        _resume(r, now, keys, ticks, available, free, pending, waiting, per_tick, starts, departures)
        if waiting[r] == 0:
            return


@jit
def _give_out(
    times: Floats,
    keys: NDArray[np.int32],
    ticks: Floats,
    routing: Ints,
    free: Floats,
    queues: Floats,
    places: Ints,
    held: Ints,
    clock: Floats,
    give_time: float,
    per_tick: float,
    starts: Floats,
    departures: Floats,
    replicas: NDArray[np.int16],
) -> None:
    """S-BLK: the splitter empties its buffer, and takes nothing new meanwhile."""
    now = max(clock[MOVED], clock[SPLITTER])
    for h in range(int(clock[HELD])):
        i = held[h]
        r = routing[keys[i]]
        now = max(now + give_time, queues[r, places[r]])
        starts[i] = max(now, free[r])
        free[r] = starts[i] + ticks[i] * per_tick
        departures[i] = free[r]
        queues[r, places[r]] = free[r]
        places[r] = (places[r] + 1) % queues.shape[1]
        replicas[i] = r
    clock[SPLITTER] = now
    clock[HELD] = 0
