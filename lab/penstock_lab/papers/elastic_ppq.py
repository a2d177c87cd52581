"""Elastic-PPQ: two levels of adaptation, splitting inside and a fuzzy controller outside."""

from pathlib import Path

from penstock_lab.papers import elastic_panes, elastic_streams
from penstock_lab.papers.differences import disclose, explain
from penstock_lab.results import ResultsPage

#: Why claims differ where they do, by how the claim begins. Only causes that were looked into; others are "not understood yet",
#: with what was tried.
REASONS = {
    "Fig. 9: threads": "not understood yet. Tried: not held for 5 s, phases of 18 s: 5, 5, 7, 7, 6, 7; the set-up of before (see how it was chosen): 5, 6, 10, 11, 7, 5",
    "Fig. 11: at 8": "not understood yet. Tried: the set-up of before (see how it was chosen): 51 % against 55 %",
    "Fig. 13: MERGE tasks cut": "not understood yet. Tried: the set-up of before (see how it was chosen): by 66 %",
    "Tables 4-5, top-delta: throughput varies more the larger I": "not understood yet. Tried: the set-up of before (see how it was chosen), streams of 108 s: 2.04, 1.83, 2.44, 2.44",
    "Tables 4-5: every stream": "MAP of I = 4K, top-delta: a burst before the end. In the last 10 s the window stage was at 1.65 to 1.85 with 50 to 56 of the 59 workers, all there are, and what waited then is worked off after the last tuple.",
    "Fig. 17: with tens": "The bound on the steps of the splitting controller (0.3, in the authors' public code) makes it hold the median of the samples instead of their mean, and its derivative term pushes the same way; the samples of this stream are skewed. The fuzzy controller then adds threads that do not help. The table of other gains shows what bound and derivative do. Which gains the paper's experiment had is not published.",
}

#: Single runs, shorter than those of this page, unless it says otherwise.
CHOICES = (
    ("a tuple costs a comparison with each one its partition keeps, a merge those between its two sides", "the authors' public code",
     "comparisons only until a dominator is met, 290 ns each, as before: 0 of 16 streams within 3.1 %, Fig. 9 and Fig. 10 differed"),
    ("177 ns a comparison, 3.7 us a tuple", "straight line through the utilisations the authors publish for 7 to 20 even parts (Fig. 11)",
     "nothing else; Fig. 11's even column is therefore a fit, not a test"),
    ("a comparison of top-delta takes 1.25 times as long", "the threads of Tables 4 and 5 (PPQ says 1.5 to 2)",
     "nothing else; that top-delta needs more threads, and the threads of Table 5, are therefore a fit, not a test"),
    ("the controller sees the mean of the 250 ms samples, and the window stage's waiting tasks", "the authors' public code",
     "utilisation over 2.5 s and arrivals alone, as before: the start's backlog hardly shrank, Fig. 12 differed"),
    ("pane stage alone: the controller is told a splitting of 1", "the authors' public code", "the measured splitting, as before: Figs. 9 and 10 differed"),
    ("Fig. 9 starts with 3 threads, held for 5 s", "the authors' log starts with 3 and shows no reaction to its first interval",
     "not held, phases of 18 s: 5, 5, 7, 7, 6, 7 threads, and the claim differed"),
    ("Tables 4-5: set-point 0.7 of the splitting controller, ten million tuples (random walk five)", "the authors' logs of these runs",
     "0.9 on MAP I = 1K over 120 s: 13.4 pane threads, the end 4.7 s after the last tuple; at 0.7 over 330 s 4.1 threads and 4.2 s"),
    ("delta ends with the last window that the stream fills", "the authors' code answers no others", "not tried"),
    ("Fig. 17 on Game1, at a set-point of 0.7, from one worker a stage", "the authors' rates and logs of these runs",
     "a MAP of its rate and dispersion at 0.9, as before and where Game1 is not at hand: errors of 0.1 to 30 %, CV 1.18, 1.26, 1.37; a MAP of I = 1K from 2 + 12 workers: CV 0.93, 0.91, 0.84, and the claim differed, so that on a MAP it is a fit"),
)  # fmt: skip


def run(scale: float, folder: Path) -> ResultsPage:
    """Figs. 9-13 and 17, Tables 3-5 for the synthetic streams."""
    report = ResultsPage("Elastic-PPQ in the simulator", f"penstock papers elastic-ppq --scale {scale:g}")
    elastic_panes.artificial(report, scale, folder)
    elastic_panes.bursts(report, scale, folder)
    elastic_panes.splitting(report, scale, folder)
    elastic_streams.merge_tasks(report, scale, folder)
    elastic_streams.tables(report, scale)
    elastic_streams.sensitivity(report, scale)
    disclose(report, CHOICES)
    explain(report, REASONS)
    return report
