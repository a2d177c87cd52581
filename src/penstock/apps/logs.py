"""Log analysis (MEAD II): a parser that drops malformed lines feeds a counter of components and a matcher of patterns."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.apps.flow_app import OPTIONS as COMMON
from penstock.apps.flow_app import Largest, checked, run_app, whole
from penstock.apps.network import log_line
from penstock.apps.summary import Option, Summary
from penstock.apps.wordcount import given_lines, source_of_lines
from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.operators import Operator, operator
from penstock.dataflow.rows import Rows
from penstock.dataflow.running_figures import running_count

HELP = "log analysis: events by component, and matches of patterns"
PATTERNS = (
    "Invalid user",
    "Failed password",
    "authentication failure",
    "BREAK-IN",
    "Received disconnect",
    "Connection (closed|reset)",
    "session opened",
)
OPTIONS: Mapping[str, Option] = {
    **COMMON,
    "column": Option("line", "the column of the lines, where --input is CSV or Parquet"),
    "patterns": Option(" ; ".join(PATTERNS), "regular expressions to look for, parted by ' ; '"),
}

#: A line of syslog: with the time as sshd's usual log has it or as ISO 8601, a program of any name (``systemd-logind``,
#: ``postfix/smtpd``, ``su(pam_unix)``), with or without the number of its process.
_LINE = (
    r"^(?:(?P<month>\w{3}) +(?P<day>\d+) (?P<time>[\d:]{8})|(?P<iso>\d{4}-\d\d-\d\dT\S+)) (?P<host>\S+) "
    r"(?P<component>[\w./@-]+(?:\([^)]*\))?)(?:\[\d+\])?: ?(?P<text>.*)$"
)


@operator(inputs={"in": {"value": "int64"}}, output={"line": str})
def write_log(rows: Rows, output: Any) -> None:
    """Log lines out of numbers; every hundredth is malformed."""
    output.emit({"line": [made_line(v) for v in rows["value"].tolist()]})


@operator(inputs={"in": {"line": str}}, output={"component": str, "text": str})
def parse(rows: Rows, output: Any) -> None:
    """Component and text of each line; malformed lines are discarded."""
    found = pc.extract_regex(rows.column("line"), pattern=_LINE).combine_chunks()
    at = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    kept = found.take(pa.array(at))
    output.emit({"component": kept.field("component"), "text": kept.field("text")}, at=rows.positions[at])


@operator(
    keys="component",
    inputs={"in": {"component": str}},
    state={"events": "int64"},
    output={"component": str, "events": "int64"},
)
def count(rows: Rows, state: Any, output: Any) -> None:
    """Events of a component, told once a batch."""
    running_count(rows.slots, state["events"])
    output.emit(
        {"component": state.keys.column("component"), "events": state["events"].copy()},
        at=rows.positions[rows.last],
    )


@operator(
    stateful=True, grain="key", inputs={"in": {"text": str}}, output={"pattern": str, "matches": "int64"}
)
class Matcher(Operator):
    """Looks for patterns in every text and keeps a count of the matches of each."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns

    def initialize(self, context: Any) -> None:
        """Compile the patterns."""
        self.compiled = [(p, re.compile(p)) for p in self.patterns]

    def invoke(self, rows: list[dict[str, Any]], state: dict[str, Any], output: Any) -> None:
        """Match."""
        for pattern, regex in self.compiled:
            hits = sum(1 for row in rows if regex.search(row["text"]))
            if hits:
                state[pattern] = state.get(pattern, 0) + hits
                output.emit({"pattern": pattern, "matches": state[pattern]})


def build(lines: Stream, patterns: tuple[str, ...] = PATTERNS) -> tuple[Stream, Stream]:
    """The flow from lines to counts and matches."""
    parsed = lines.through(parse)
    return parsed.through(count), parsed.through(Matcher(patterns), name="matcher")


def oracle(
    lines: Iterable[str], patterns: tuple[str, ...] = PATTERNS
) -> tuple[dict[str, int], dict[str, int]]:
    """The same answer by a loop."""
    components: Counter[str] = Counter()
    matches: Counter[str] = Counter()
    shape = re.compile(_LINE)
    for line in lines:
        found = shape.match(line)
        if found:
            components[found["component"]] += 1
            matches.update(p for p in patterns if re.search(p, found["text"]))
    return dict(components), dict(matches)


def made_line(value: int) -> str:
    """A made-up line."""
    if value % 100 == 0:
        return f"line {value} that no parser knows"
    line = log_line(value)
    return line if value % 3 else line.replace("sshd", ("cron", "kernel", "systemd")[value // 3 % 3])


def main(seconds: float, options: Mapping[str, str]) -> Summary:
    """Run the application."""
    components, matched = Largest("component", "events"), Largest("pattern", "matches")
    patterns = tuple(p for p in options["patterns"].split(" ; ") if p)
    try:
        [re.compile(p) for p in patterns]
    except re.error as error:
        raise PenstockError(f"--patterns holds something that is no regular expression: {error}.") from None
    data = given_lines(options)

    def flow(spark: Any, scratch: Path) -> Graph:
        from penstock.spark.flow.flow import Flow
        from penstock.spark.sources.demo_sources import numbers

        made = Flow("logs")
        lines = source_of_lines(made, spark, options, scratch, data)
        if lines is None:
            lines = made.source("numbers", numbers(spark, whole(options, "rate"))).through(write_log)
        by_component, matches = build(lines, patterns)
        by_component.sink("components", components)
        matches.sink("matches", matched)
        return made

    ended = run_app(flow, seconds, options, lambda: len(data))

    def equal() -> bool:
        lines = data[: ended.rows] if data else map(made_line, range(ended.rows))
        return (components.counts, matched.counts) == oracle(lines, patterns)

    right, verdict = checked(options, "a plain loop over the same lines", equal, ended.rows_before)
    shown = [
        ("component " + n, c) for n, c in sorted(components.counts.items(), key=lambda item: -item[1])[:8]
    ]
    shown += [("pattern " + n, c) for n, c in sorted(matched.counts.items(), key=lambda item: -item[1])]
    figures = {**ended.figures, "parsed": sum(components.counts.values()), "checked": right}
    notes = [verdict, *ended.notes]
    if data and not options["input"]:
        notes.append("By hand: zgrep -c 'Invalid user' sshd_secrepo_10k.log.gz")
    return Summary("logs", figures, ("what", "count"), shown, notes)
