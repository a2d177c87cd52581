"""Sessions of a web log: what each visitor did until half an hour of silence, given out when the visit is over.

Lines may be a minute out of order; a line that is later still goes to a sink of its own. Run it with:
python examples/web_sessions.py, or give it a log in the common format: python examples/web_sessions.py access.log
"""

import re
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa

import penstock
from penstock.dataflow import Reference, sessions

LINE = re.compile(r'(?P<host>\S+) \S+ \S+ \[(?P<at>[^\]]+)\] "\S+ (?P<page>\S+)[^"]*" \d+ (?P<bytes>\d+|-)')
VISIT = {"entered": ("page", "first"), "left": ("page", "last"), "bytes": ("bytes", "sum")}

SAMPLE = """\
10.0.0.1 - - [01/Mar/2026:10:00:00 +0000] "GET /start HTTP/1.1" 200 512
10.0.0.2 - - [01/Mar/2026:10:00:20 +0000] "GET /news HTTP/1.1" 200 2048
10.0.0.1 - - [01/Mar/2026:10:05:00 +0000] "GET /basket HTTP/1.1" 200 256
10.0.0.1 - - [01/Mar/2026:10:04:30 +0000] "GET /shoes HTTP/1.1" 200 1024
10.0.0.2 - - [01/Mar/2026:11:00:00 +0000] "GET /news HTTP/1.1" 200 2048
10.0.0.3 - - [01/Mar/2026:12:30:00 +0000] "GET /start HTTP/1.1" 200 512
10.0.0.3 - - [01/Mar/2026:12:30:10 +0000] "GET /start HTTP/1.1" 200 512
"""


@penstock.operator(
    output={"host": str, "at": float, "page": str, "bytes": int}, on_error="dead-letter", grain="key"
)
def parse(lines, output):
    """A line of the log as a row; what is no such line goes to the dead letters."""
    for line in lines:
        found = LINE.match(line["line"])
        at = datetime.strptime(found["at"], "%d/%b/%Y:%H:%M:%S %z").timestamp()
        size = 0 if found["bytes"] == "-" else int(found["bytes"])
        output.emit({"host": found["host"], "at": at, "page": found["page"], "bytes": size})


def build(lines={"line": str}):  # noqa: B006 - only read
    """The flow; on Spark ``lines`` is a streaming DataFrame with a column ``line``."""
    flow = penstock.Flow("visits")
    clicks = flow.source("lines", lines).through(parse)
    visits = clicks.through(sessions(keys="host", time="at", gap=1800, slack=60, figures=VISIT))
    visits.sink("visits")
    visits.port_named("late").sink("late")
    return flow


def visits_of(lines, batch=2):
    """Run the flow in this process, some lines at a time."""
    run = Reference(build())
    cuts = range(0, len(lines), batch)
    found = run.run_all([{"lines": pa.table({"line": lines[at : at + batch]})} for at in cuts])
    return found["visits"].to_pylist() if "visits" in found else []


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else SAMPLE
    for visit in visits_of(text.splitlines()):
        print(visit)
