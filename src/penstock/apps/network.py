"""Break-in attempts in sshd logs (Joker 5.4): filter, parser, window of failures by address, cut-off, difference."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.apps.flow_app import OPTIONS as COMMON
from penstock.apps.flow_app import Collected, checked, run_app, whole
from penstock.apps.summary import Option, Summary
from penstock.apps.wordcount import given_lines, source_of_lines
from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.operators import Operator, operator
from penstock.dataflow.rows import Rows

HELP = "break-in attempts in sshd logs: addresses with many failures in a short time"
OPTIONS: Mapping[str, Option] = {
    **COMMON,
    "column": Option("line", "the column of the lines, where --input is CSV or Parquet"),
    "failures": Option("5", "failures within the window that make an attempt"),
    "window": Option("60", "length of the window in seconds"),
}

FAILURE = re.compile(
    r"Invalid user|Failed password|BREAK-IN ATTEMPT|authentication failure|maximum authentication attempts exceeded"
)
_IP = r"(\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+)"
#: Where sshd tells who connected, the surest first. A user name can look like any of them, so what stands after the last
#: "from" counts, and of a message of PAM the first "rhost", which is before the user.
_CONNECTED = (
    re.compile(rf"^(?!.*\brhost=).*\bfrom {_IP}(?: port \d+.*|:? .*)?$"),
    re.compile(r"\brhost=(\S+)"),
    re.compile(rf".*\[{_IP}\]"),
    re.compile(rf"{_IP}"),
)
_MONTHS = {
    m: n
    for n, m in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    )
}
_DAYS = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]


@operator(inputs={"in": {"value": "int64"}}, output={"line": str})
def write_log(rows: Rows, output: Any) -> None:
    """Log lines out of numbers: every fifth a failed login, from one of 97 addresses."""
    output.emit({"line": [log_line(v) for v in rows["value"].tolist()]})


@operator(inputs={"in": {"line": str}})
def failures_only(rows: Rows, output: Any) -> None:
    """Lines that tell of a failed login."""
    at = np.flatnonzero(pc.match_substring_regex(rows.column("line"), FAILURE.pattern).to_numpy())
    output.emit(rows.table.take(pa.array(at)), at=rows.positions[at])


@operator(inputs={"in": {"line": str}}, output={"address": str, "time": "int64", "break_in": bool})
def parse(rows: Rows, output: Any) -> None:
    """Address and time (seconds of the year); lines without an address are left out."""
    parsed = [parse_line(line) for line in rows.column("line").to_pylist()]
    at = np.array([n for n, found in enumerate(parsed) if found is not None], dtype=np.int64)
    columns = list(zip(*[found for found in parsed if found is not None], strict=True)) or [(), (), ()]
    output.emit(
        dict(zip(("address", "time", "break_in"), map(list, columns), strict=True)), at=rows.positions[at]
    )


@operator(
    keys="address",
    grain="key",
    inputs={"in": {"address": str, "time": "int64", "break_in": bool}},
    output={"address": str, "time": "int64", "first": "int64", "failures": "int64", "break_in": bool},
)
class FailureWindow(Operator):
    """Failures of an address within the last seconds, each time one comes."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def invoke(self, rows: list[dict[str, Any]], state: dict[str, Any], output: Any) -> None:
        """Add each failure and forget those that are too old."""
        times: list[int] = state.get("times", [])
        for row in rows:
            # Of all of them, since logs of several hosts are not in order of time.
            times = [t for t in times if t > row["time"] - self.seconds] + [row["time"]]
            output.emit({**row, "first": min(times), "failures": len(times)})
        state["times"] = times


@operator(inputs={"in": {"address": str, "failures": "int64"}})
class CutOff(Operator):
    """Lets through what has at least so many failures, and what sshd itself calls an attempt."""

    def __init__(self, least: int) -> None:
        self.least = least

    def invoke(self, rows: Rows, state: Any, output: Any) -> None:
        """Filter."""
        at = np.flatnonzero((rows["failures"] >= self.least) | rows["break_in"])
        output.emit(rows.table.take(pa.array(at)), at=rows.positions[at])


@operator(output={"address": str, "time": "int64", "failures": "int64", "seconds": "int64", "break_in": bool})
def difference(rows: Rows, output: Any) -> None:
    """How long the failures took."""
    table = rows.table
    columns = {n: table[n] for n in ("address", "time", "failures", "break_in")}
    output.emit(columns | {"seconds": rows["time"] - rows["first"]})


def build(lines: Stream, least: int = 5, seconds: int = 60) -> Stream:
    """The flow from log lines to attempts."""
    parsed = lines.through(failures_only).through(parse)
    return (
        parsed.through(FailureWindow(seconds), name="failure_window")
        .through(CutOff(least), name="cut_off")
        .through(difference)
    )


def parse_line(line: str) -> tuple[str, int, bool] | None:
    """The address that connected, the second of the year, and whether sshd speaks of a break-in.

    >>> parse_line("Dec 10 06:55:46 LabSZ sshd[24200]: Invalid user 9.9.9.9 from 173.234.31.186 port 38926")[0]
    '173.234.31.186'
    """
    stamped = _second(line)
    if stamped is None:
        return None
    second, rest = stamped
    text = rest.partition(": ")[2] or rest
    for pattern in _CONNECTED:
        found = pattern.search(text)
        if found is not None:
            return found[1], second, "BREAK-IN" in text
    return None


def _second(line: str) -> tuple[int, str] | None:
    """The second of the year of a line, by either kind of time stamp, and what is after it."""
    words = line.split(maxsplit=3)
    if len(words) == 4 and words[0] in _MONTHS and re.fullmatch(r"\d\d:\d\d:\d\d", words[2]):
        month, day, clock, rest = _MONTHS[words[0]], words[1], words[2], words[3]
    else:
        found = re.match(r"\d{4}-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d)\S* (.*)", line)
        if found is None:
            return None
        month, day, clock, rest = int(found[1]) - 1, found[2], found[3], found[4]
    if not day.isdigit() or not 0 <= month < 12:
        return None
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return (((_DAYS[month] + int(day) - 1) * 24 + hours) * 60 + minutes) * 60 + seconds, rest


def oracle(lines: Iterable[str], least: int = 5, seconds: int = 60) -> list[dict[str, Any]]:
    """The same answer by a loop."""
    found = []
    times: dict[str, list[int]] = {}
    for line in lines:
        if not FAILURE.search(line) or (parsed := parse_line(line)) is None:
            continue
        address, at, break_in = parsed
        recent = [t for t in times.get(address, []) if t > at - seconds] + [at]
        times[address] = recent
        if len(recent) >= least or break_in:
            found.append(
                {
                    "address": address,
                    "time": at,
                    "failures": len(recent),
                    "seconds": at - min(recent),
                    "break_in": break_in,
                }
            )
    return found


def log_line(value: int) -> str:
    """A made-up line."""
    second = value // 50
    stamp = f"Jan {1 + second // 86400 % 28:2d} {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    address = f"10.0.{value * 7919 % 97}.{value * 104729 % 3}"
    if value % 5 == 0:
        return f"{stamp} host sshd[{value % 30000}]: Invalid user test from {address}"
    return f"{stamp} host sshd[{value % 30000}]: Accepted publickey for root from {address} port 22 ssh2"


def main(seconds: float, options: Mapping[str, str]) -> Summary:
    """Run the application."""
    kept = Collected()
    least, window = whole(options, "failures"), whole(options, "window")
    if window > 86_400:
        raise PenstockError(f"--window is {window} seconds; a day is the most that makes sense here.")
    data = given_lines(options)

    def flow(spark: Any, scratch: Path) -> Graph:
        from penstock.spark.flow.flow import Flow
        from penstock.spark.sources.demo_sources import numbers

        made = Flow("network")
        lines = source_of_lines(made, spark, options, scratch, data)
        if lines is None:
            lines = made.source("numbers", numbers(spark, whole(options, "rate")), time="value").through(
                write_log
            )
        build(lines, least, window).sink("attempts", kept)
        return made

    ended = run_app(flow, seconds, options, lambda: len(data))
    rows = [] if kept.table is None else kept.table.to_pylist()

    def equal() -> bool:
        lines = data[: ended.rows] if data else map(log_line, range(ended.rows))
        return by_address(rows) == by_address(oracle(lines, least, window))

    right, verdict = checked(options, "a plain loop over the same lines", equal, ended.rows_before)
    worst: dict[str, tuple[int, int]] = {}
    for row in rows:
        worst[row["address"]] = max(worst.get(row["address"], (0, 0)), (row["failures"], -row["seconds"]))
    shown = [(a, n, -s) for a, (n, s) in sorted(worst.items(), key=lambda item: (-item[1][0], item[0]))[:10]]
    named = len({r["address"] for r in rows if r["break_in"]})
    notes = [verdict, *ended.notes]
    if data and not options["input"]:
        notes.append(
            "By hand: zgrep BREAK-IN sshd_secrepo_10k.log.gz | grep -o '\\[[0-9.]*\\] failed' | sort -u | wc -l gives the addresses named by sshd."
        )
    figures = {
        **ended.figures,
        "attempts": len(rows),
        "addresses": len(worst),
        "named_by_sshd": named,
        "checked": right,
    }
    return Summary("network", figures, ("address", "most failures", "within seconds"), shown, notes)


def by_address(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """Attempts in order, by address."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for r in rows:
        found.setdefault(r["address"], []).append((r["time"], r["failures"], r["seconds"], r["break_in"]))
    return found
