"""The experiments of the papers, run in the simulator and set beside the published figures.

Each module has ``run(scale, folder) -> Report``: ``scale`` shortens the streams (1 is the full experiment), plots go
into the folder, and every claim about shapes is checked by the run itself.
"""

#: Name -> (module, what it reproduces).
PAPERS: dict[str, tuple[str, str]] = {
    "elastic-ppq": ("elastic_ppq", "two-level adaptation of a preference query: Figs. 9-13, 17, Tables 3-5"),
    "elastic-logs": (
        "elastic_logs",
        "Elastic-PPQ against its authors' logs, step by step: Figs. 14-16, the games of Tables 4-5",
    ),
    "ppq": ("ppq", "scheduling strategies of a preference query: Figs. 8-10, 12-14, 17"),
    "mead": ("mead", "vertical scaling by fitted arrival processes: Fig. 3, Tables I-III"),
    "mpc": (
        "mpc",
        "model-predictive scaling: Figs. 8-10, Tables 5 and 7, Results 1-4, power, migration protocols",
    ),
    "joker": ("joker", "organic adaptation: Figs. 5, 6, 8-12, 14-16, 18-20, 32"),
    "policies": ("policies", "all policies on four real traces, same target (our own table)"),
}
