"""MEAD's log-analysis application (MEAD II): a parser that drops malformed lines, a matcher, a counter."""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache

import pyarrow as pa

from penstock_lab.trials.chain_operators import ChainOperator

_LINE = re.compile(
    r"^(?P<when>\w+ +\d+ [\d:]+) (?P<host>\S+) (?P<component>[\w/.-]+)\[(?P<pid>\d+)\]: (?P<text>.*)$"
)

#: Where no recorded log is at hand.
SAMPLE = (
    "Nov 30 06:39:00 ip-172-31-27-153 CRON[21882]: pam_unix(cron:session): session closed for user root",
    "Nov 30 06:47:01 ip-172-31-27-153 sshd[22087]: Connection closed by 122.225.103.87 [preauth]",
    "Nov 30 07:07:05 ip-172-31-27-153 sshd[22116]: Invalid user admin from 122.225.109.103",
    "Nov 30 07:07:05 ip-172-31-27-153 sshd[22118]: Received disconnect from 122.225.109.208: 11: Bye Bye [preauth]",
    "no date here, a line that is dropped",
)


def patterns(count: int) -> list[str]:
    """User-defined patterns: the more of them, the dearer the matcher (MEAD II varies its load in this way)."""
    words = (
        "Invalid user",
        "session closed",
        "Bye Bye",
        "preauth",
        "reverse mapping",
        "Failed password",
        "root",
    )
    return [rf"{words[i % len(words)]}.*?\b\w*{i % 97}\w*$" for i in range(count)]


@cache
def _searches(count: int) -> tuple[Callable[[str], object], ...]:
    """Compiled once a worker process, not once a task."""
    return tuple(re.compile(p).search for p in patterns(count))


class Parser:
    """Lines to (component, text); malformed ones are dropped."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Parse one batch."""
        found = [m for line in batch.column(0).to_pylist() if (m := _LINE.match(line or ""))]
        columns = [pa.array([m[name] for m in found], pa.string()) for name in ("component", "text")]
        return pa.RecordBatch.from_arrays(columns, ["component", "text"])


class ChainMatcher:
    """Adds how many of the patterns match; counts the matches so far in this worker."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Match one batch."""
        searches = _searches(self._count)
        hits = [sum(1 for s in searches if s(text)) for text in batch.column("text").to_pylist()]
        return pa.RecordBatch.from_arrays(
            [batch.column("component"), pa.array(hits, pa.int64())], ["component", "hits"]
        )


class CountByComponent:
    """Events by component, and matches where there are any before it."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Count one batch."""
        events: Counter[str] = Counter()
        matched: Counter[str] = Counter()
        given = "hits" in batch.schema.names
        found = batch.column("hits").to_pylist() if given else [0] * batch.num_rows
        for component, hits in zip(batch.column("component").to_pylist(), found, strict=True):
            events[component] += 1
            matched[component] += hits
        names = sorted(events)
        return pa.RecordBatch.from_arrays(
            [pa.array(names, pa.string()), pa.array([events[n] for n in names], pa.int64()),
             pa.array([matched[n] for n in names], pa.int64())],
            ["component", "events", "hits"],
        )  # fmt: skip


def operators(pattern_count: int = 1500) -> tuple[ChainOperator, ...]:
    """The application as a chain; the matcher is by far the dearest."""
    return (
        ChainOperator("parser", Parser(), "component string, text string"),
        ChainOperator("matcher", ChainMatcher(pattern_count), "component string, hits long"),
        ChainOperator("counter", CountByComponent(), "component string, events long, hits long"),
    )
