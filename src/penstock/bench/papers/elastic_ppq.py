"""Elastic-PPQ: two levels of adaptation, splitting inside and a fuzzy controller outside."""

from pathlib import Path

from penstock.bench.papers import elastic_panes, elastic_streams
from penstock.bench.report import Report


def run(scale: float, folder: Path) -> Report:
    """Figs. 9-13 and 17, Tables 3-5 for the synthetic streams."""
    report = Report("Elastic-PPQ in the simulator", f"penstock papers elastic-ppq --scale {scale:g}")
    elastic_panes.artificial(report, scale, folder)
    elastic_panes.bursts(report, scale, folder)
    elastic_panes.splitting(report, scale, folder)
    elastic_streams.merge_tasks(report, scale, folder)
    elastic_streams.tables(report, scale)
    elastic_streams.sensitivity(report, scale)
    return report
