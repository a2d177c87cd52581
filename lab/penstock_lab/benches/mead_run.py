"""One run of MEAD's log analysis in a process of its own: what is sent, and what its lines and operators came to."""

import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.journal import read
from penstock.traffic import map2
from penstock.traffic.trace import read_trace
from penstock_lab.benches.autoscale import row_delays
from penstock_lab.cell_runs import Cell, Figures
from penstock_lab.data import data_file
from penstock_lab.trials.chain import Request, write
from penstock_lab.trials.chain_logs import SAMPLE
from penstock_lab.trials.process import result_of

#: Seconds in which workers come up and a policy sees its first batches before it is judged.
WARM = 15.0
#: The recorded trace, and a stream whose bursts last longer than a batch.
RECORDED, LONG = "BC-pAug89 sped up", "MAP(2), I = 2000"


def one_run(cell: Cell, master: str) -> Figures:
    """Mean and 95th percentile of the response in seconds, mean CPU share of the operators, changes, after the warm-up."""
    arrivals = arrivals_of(cell.load, cell.spec["rate"], WARM + cell.spec["seconds"])
    with tempfile.TemporaryDirectory(prefix="penstock-mead-") as scratch:
        own = Path(scratch) / "run"
        np.save(Path(scratch) / "arrivals.npy", arrivals)
        (Path(scratch) / "lines.txt").write_text("\n".join(_lines()))
        request = Request(
            master,
            cell.spec["method"],
            str(Path(scratch) / "arrivals.npy"),
            str(Path(scratch) / "lines.txt"),
            str(own),
            cell.spec["target"],
            branched=cell.part == "branch",
        )
        patience = float(arrivals[-1]) + 180.0
        result = result_of("penstock_lab.trials.chain", write(request), own, cell.way, patience)
        return _figures(result, own, arrivals)


def arrivals_of(load: str, rate: float, seconds: float) -> Floats:
    """The Bellcore trace sped up to the rate, or a MAP(2) stream; the same in every run."""
    path = data_file("bc_paug89.csv.gz")
    if load == LONG or path is None:
        return map2(rate, 2000.0).sample(seconds, 3)
    times = np.asarray(read_trace(path, column="ts_us", unit="us").arrival)
    times = times * (len(times) / times[-1] / rate)
    return np.asarray(times[times < seconds])


def _lines() -> list[str]:
    path = data_file("sshd_secrepo_10k.log.gz")
    if path is None:
        return list(SAMPLE)
    with gzip.open(path, "rt", errors="replace") as file:
        return file.read().splitlines()


def _figures(result: Any, folder: Path, arrivals: Floats) -> Figures:
    delays = row_delays(arrivals, result["rows"], result["ends"] - float(result["began"]))
    delays = delays[arrivals >= WARM]
    tables = read(folder / "journal.jsonl")
    behind = float(result["loop_began"] - result["began"])  # the journal's clock begins with the loop
    warm = tables.stages["time"] + behind >= WARM
    return {
        "mean": float(delays.mean()),
        "p95": float(np.percentile(delays, 95)),
        "cpu": float(tables.stages["cpu_share_observed"][warm].mean()),
        "changes": float(sum(t + behind >= WARM for t in set(tables.changes.get("time", ())))),
    }
