"""Key groups and the replicas that have them."""

import numpy as np


def regrouped(routing: tuple[int, ...], replicas: int) -> tuple[tuple[int, ...], int]:
    """Groups move from the fullest to the emptiest replica until all are within one; (routing, groups moved).

    >>> regrouped((0, 0, 0, 0), 2)
    ((0, 0, 1, 1), 2)
    """
    new = list(routing)
    held: list[list[int]] = [[] for _ in range(max(replicas, max(routing) + 1))]
    for group, replica in enumerate(routing):
        held[replica].append(group)
    moved = 0
    for gone in range(replicas, len(held)):
        for group in held[gone]:
            to = int(np.argmin([len(h) for h in held[:replicas]]))
            held[to].append(group)
            new[group] = to
            moved += 1
    while True:
        sizes = [len(h) for h in held[:replicas]]
        full, empty = int(np.argmax(sizes)), int(np.argmin(sizes))
        if sizes[full] - sizes[empty] <= 1:
            return tuple(new), moved
        group = held[full].pop()
        held[empty].append(group)
        new[group] = empty
        moved += 1
