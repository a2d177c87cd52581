"""What Penstock is for, in a minute: a stream with bursts, workers that come and go with them, answers at once."""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.apps import skyline
from penstock.apps.summary import Option, Summary
from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.page.address import listening, parse_address
from penstock.traffic.spec import StreamSpec

HELP = "a minute of bursts: workers that come and go, answers within fractions of a second, a live page"

OPTIONS: Mapping[str, Option] = {
    "rate": Option(
        "0", "tuples a second between the bursts; 0: what leaves one worker of this machine two thirds idle"
    ),
    "page": Option("127.0.0.1:8765", "address of the live page; another free port where it is taken"),
    "policy": Option("threshold:high=0.55,low=0.3", "who scales the workers; none leaves them alone"),
    "output": Option("", "folder of the run; penstock-runs/demo-TIME by default"),
}

#: Attributes of a tuple, and how large a burst is.
DIMS, PEAK = 8, 5.0
#: Seconds from the start of the stream to each burst; all of them die away within a few seconds.
BURSTS = (16.0, 34.0, 52.0, 70.0, 88.0, 106.0)
#: So many rows tell how fast a machine is.
ROWS = 6_000
#: A rate that leaves one worker two thirds idle, and asks for more of them in a burst, where the best of those rows take so many seconds.
KNOWN = (45_000, 0.0008)


def main(seconds: float, options: Mapping[str, str]) -> Summary:
    """Run for so many seconds and sum up."""
    rate = int(float(options["rate"])) or calm_rate()
    defaults = {name: option.default for name, option in skyline.OPTIONS.items()}
    summary = skyline.main(
        seconds,
        {
            **defaults,
            "rate": str(rate),
            "dispersion": "50",
            "shape": ";".join(f"flash:at={at:g},peak={PEAK},rise=2,decay=4" for at in BURSTS),
            "dims": str(DIMS),
            "distribution": "anticorrelated",
            "policy": options["policy"],
            "period": "1",
            "trigger": "200 milliseconds",
            "page": free_address(options["page"]),
            "output": options["output"] or skyline.run_folder("demo"),
        },
    )
    return replace(summary, app="demo")


def calm_rate() -> int:
    """Tuples a second that leave one worker of this machine two thirds idle, from the time that the best of some rows take."""
    from penstock.preference import skyline as best

    rows = _rows()
    best(rows)  # compiled, or loaded
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        best(rows)
        taken.append(time.perf_counter() - began)
    known_rate, known_seconds = KNOWN
    return int(round(min(max(known_rate * known_seconds / min(taken), 1_000), 100_000), -2))


def _rows() -> Floats:
    """A second of the demo's own stream."""
    rate = str(ROWS)
    spec = StreamSpec.parse(
        {"rate": rate, "dims": str(DIMS), "distribution": "anticorrelated", "seconds": "1"}
    )
    table = pa.Table.from_batches(spec.build().batches())
    return np.column_stack([table.column(f"a{i}").to_numpy() for i in range(DIMS)])


def free_address(text: str) -> str:
    """The address, or one with a free port where that one is taken."""
    if not text:
        return ""
    host, port = parse_address(text)
    try:
        listening(host, port).close()
    except PenstockError:
        port = 0
    return f"{host}:{port}"
