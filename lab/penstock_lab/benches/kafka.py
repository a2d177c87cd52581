"""``penstock bench kafka``: from topic to topic and table against queries by hand, kills of driver and broker, a backlog.

Broker, producer (a process of its own) and Spark share the machine. A look (``--quick``) is at the first part alone, or at one that is
named, which may take two minutes. At full size rates take three runs of each way, kills ten lives of a driver; runs of rates are kept,
and the next call goes on after them.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from penstock.testing.kafka import LocalBroker
from penstock_lab.benches import kafka_backlog, kafka_kills, kafka_rates
from penstock_lab.benches.kafka_runs import FULL, QUICK, Setting
from penstock_lab.part_pages import parts_to_run
from penstock_lab.results import ResultsPage

PARTS: dict[str, Callable[[ResultsPage, Setting], None]] = {
    "skyline": kafka_rates.skyline,
    "delta": kafka_rates.delta,
    "words": kafka_rates.words,
    "kills": kafka_kills.query_kills,
    "flow-kills": kafka_kills.flow_kills,
    "backlog": kafka_backlog.drained,
}


def run(quick: bool, folder: Path, part: str | None = None) -> ResultsPage:
    """Run all parts, or one; a quick look is at the first, or at one."""
    command = "penstock bench kafka" + (" --quick" if quick else "") + (f" --part {part}" if part else "")
    report = ResultsPage("Kafka in and out", command)
    for name in parts_to_run(part, PARTS, quick, list(PARTS)):
        # Each part has a broker of its own, so that none pays for what another left in its topics.
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch, LocalBroker() as broker:
            setting = Setting(broker, Path(scratch), QUICK if quick else FULL, folder)
            report.attempt(name, lambda measure=PARTS[name], it=setting: measure(report, it))  # type: ignore[misc]
    return report
