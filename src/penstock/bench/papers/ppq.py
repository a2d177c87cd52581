"""PPQ: scheduling strategies of a parallel preference query over bursty streams out of order."""

from pathlib import Path

from penstock.bench.papers import ppq_panes, ppq_windows
from penstock.bench.report import Report


def run(scale: float, folder: Path) -> Report:
    """Figs. 8-10, 12-14 and 17."""
    report = Report("PPQ in the simulator", f"penstock papers ppq --scale {scale:g}")
    ppq_panes.strategies(report, scale, folder)
    ppq_panes.disorder(report, scale, folder)
    ppq_windows.scheduling(report, scale, folder)
    ppq_windows.panes_against_windows(report, scale)
    ppq_windows.punctuations(report, scale)
    return report
