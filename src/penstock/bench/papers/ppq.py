"""PPQ: scheduling strategies of a parallel preference query over bursty streams out of order."""

from pathlib import Path

from penstock.bench.papers import ppq_panes, ppq_windows
from penstock.bench.papers.differences import explain
from penstock.bench.report import Report

#: Why claims differ where they do, by how the claim begins.
REASONS = {
    "Fig. 8a: PB_RR cannot": "Our workers queue without bound, and a pane that is large only occupies its worker longer; the paper's utilisation counts that as a lost part of the load at once.",
    "Fig. 8a": "Another machine; the constant is set from one figure.",
    "Fig. 8c-f": "The PID of the authors' fixed gains with a one-second sample has few samples in a short run, and bursts change the load faster than that.",
    "Fig. 8f": "Correlation of the attributes in the bursty streams is not published.",
    "Fig. 8h": "Ours compares the busiest with the least busy worker over the whole run.",
    "Fig. 9: latency": "With uniform delays some tuple of nearly every pane comes as late as any does, so the last tuple of a pane is computed at about the same time whether tuples are held back or not; what out-of-order processing saves is memory.",
    "Fig. 9: the cut": "See the latency cut.",
    "Fig. 9: fewer": "See the table.",
    "Fig. 10": "Panes open at the start of a short run.",
    "Fig. 12": "Windows are counted until the end of the stream; what is under way then is not.",
    "Fig. 13": "Idle workers take turns; with few tasks a worker one task ahead shows.",
    "Fig. 14": "With eight independent attributes a small pane keeps much of its tuples, and the merging of many panes outweighs what filtering saves.",
    "Fig. 17": "The delays of the game streams are not public; ours have a lighter tail in a short run.",
}


def run(scale: float, folder: Path) -> Report:
    """Figs. 8-10, 12-14 and 17."""
    report = Report("PPQ in the simulator", f"penstock papers ppq --scale {scale:g}")
    ppq_panes.strategies(report, scale, folder)
    ppq_panes.disorder(report, scale, folder)
    ppq_windows.scheduling(report, scale, folder)
    ppq_windows.panes_against_windows(report, scale)
    ppq_windows.punctuations(report, scale)
    explain(report, REASONS)
    return report
