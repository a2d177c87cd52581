"""Elastic-PPQ: two levels of adaptation, splitting inside and a fuzzy controller outside."""

from pathlib import Path

from penstock.bench.papers import elastic_panes, elastic_streams
from penstock.bench.papers.differences import explain
from penstock.bench.report import Report

#: Why claims differ where they do, by how the claim begins.
REASONS = {
    "Fig. 9: threads": "Our constant makes a tuple a little dearer than the paper's machine at this rate.",
    "Fig. 9: utilisation": "Over 2.5 s the unevenness of the 250 ms samples, which the PID holds at 0.9, averages out.",
    "Fig. 10": "Over 2.5 s the unevenness of the 250 ms samples, which the PID holds at 0.9, averages out: by the interval it is 0.74, and the threads are a fifth of those without splitting.",
    "Fig. 12: MERGE needs": "MERGE tasks are work of their own; they fill idle workers and shorten the answers, and the controller sees busier workers.",
    "Fig. 13": "While the backlog of the start is worked off nobody is idle, with or without MERGE tasks.",
    "Tables 4-5: every stream": "A window is about six seconds of serial work at our constant, of which MERGE tasks spread a part; the last window ends that much after the last tuple. On top comes what piled up while the run started with one worker a stage.",
    "Tables 4-5: throughput": "Dominated by the start, in which no window is given out.",
    "Fig. 17": "The start weighs more than the interval: what piles up in it is given out unevenly later.",
}


def run(scale: float, folder: Path) -> Report:
    """Figs. 9-13 and 17, Tables 3-5 for the synthetic streams."""
    report = Report("Elastic-PPQ in the simulator", f"penstock papers elastic-ppq --scale {scale:g}")
    elastic_panes.artificial(report, scale, folder)
    elastic_panes.bursts(report, scale, folder)
    elastic_panes.splitting(report, scale, folder)
    elastic_streams.merge_tasks(report, scale, folder)
    elastic_streams.tables(report, scale)
    elastic_streams.sensitivity(report, scale)
    explain(report, REASONS)
    return report
