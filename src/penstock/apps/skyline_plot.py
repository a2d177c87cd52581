"""A picture of one run of a preference query, from its journal."""

from pathlib import Path

import matplotlib

from penstock.core.tables import Tables

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def plot_run(tables: Tables, path: Path) -> Path:
    """Load, utilisation with splitting, latency and answer sizes over time; gives the path back."""
    seen, panes, windows = tables.observations, tables.stage("panes"), tables.stage("windows")
    at = seen["time"]
    figure, axes = plt.subplots(4, 1, figsize=(9, 9), sharex=True, layout="constrained")
    axes[0].step(at, panes["arrival_rate"], where="post", color="tab:blue")
    axes[0].set_ylabel("tuples / s")
    axes[0].set_title("Arrivals", loc="left")
    axes[1].plot(at, panes["utilisation"], label="panes", color="tab:orange")
    axes[1].plot(at, windows["utilisation"], label="windows", color="tab:green")
    axes[1].axhline(0.9, color="grey", linestyle=":", linewidth=1)
    axes[1].set_ylabel("utilisation")
    axes[1].set_title("Utilisation of the stages, and into how many parts a pane was split", loc="left")
    axes[1].legend(loc="upper left")
    if "splitting" in panes:
        right = axes[1].twinx()
        right.plot(at, panes["splitting"], color="tab:purple", linewidth=1, alpha=0.6)
        right.set_ylabel("parts a pane", color="tab:purple")
        right.set_ylim(bottom=0)
    axes[2].plot(at, seen["latency_mean"], color="tab:red", label="window: first tuple to answer")
    axes[2].plot(at, seen["batch_seconds"], color="tab:brown", linewidth=1, label="micro-batch")
    axes[2].set_ylabel("seconds")
    axes[2].set_title("Latency", loc="left")
    axes[2].legend(loc="upper left")
    axes[3].step(at, seen["answer_rows"], where="post", color="tab:blue", label="rows of an answer")
    axes[3].step(
        at,
        seen["live_rows"],
        where="post",
        color="tab:grey",
        linewidth=1,
        label="rows held for windows to come",
    )
    axes[3].set_ylabel("rows")
    axes[3].set_xlabel("seconds")
    axes[3].set_title("Size of the answers", loc="left")
    axes[3].legend(loc="upper left")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
