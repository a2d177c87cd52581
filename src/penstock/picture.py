"""How every picture looks: on a page that is light or dark, legends beside the curves, no axis below zero without need.

The ground is transparent, and ink and colours are of middling lightness: each stands out from white as well as from the
dark grounds of sites and terminals. This is the only module that loads matplotlib.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from penstock.core.errors import PenstockError

#: Text, axes and curves that stand for themselves.
INK = "#747a82"
BLUE, RED, GREEN, ORANGE, PURPLE, TEAL, PINK, OLIVE = COLOURS = (
    "#2b83d6", "#dc4c4c", "#2c9a58", "#c9760f", "#9069d8", "#1b979b", "#d35a9e", "#8c8a1e",
)  # fmt: skip

_STYLE: dict[str, Any] = {
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
    "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "font.size": 10, "axes.titlesize": 10.5, "axes.titlelocation": "left", "axes.labelsize": 9.5,
    "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9, "figure.titlesize": 12,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "axes.grid": True, "grid.color": INK, "grid.alpha": 0.22, "grid.linewidth": 0.6,
    "legend.frameon": False, "lines.linewidth": 1.3,
}  # fmt: skip


@contextmanager
def picture(
    path: Path | BytesIO,
    rows: int = 1,
    columns: int = 1,
    *,
    size: tuple[float, float] = (9.0, 4.0),
    title: str = "",
    **grid: Any,
) -> Iterator[Any]:
    """Axes to draw into (one, a row or a grid of them); at the end the picture is laid out and written.

    Curves that are to be in a legend have a label; the legend itself is set here. ``grid`` goes to matplotlib's
    ``subplots``. Where the drawing fails, nothing is written.
    """
    from cycler import cycler
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: Any = {**_STYLE, "axes.prop_cycle": cycler(color=COLOURS)}
    with rc_context(style):
        figure = Figure(figsize=size, dpi=120, layout="constrained")
        axes = figure.subplots(rows, columns, **grid)
        if title:
            figure.suptitle(title, x=0.012, ha="left")
        yield axes
        lay_out(figure)
        _write(figure, path)


def lay_out(figure: Any) -> None:
    """Legends below their axes, the same one only once; axes of quantities that are never negative from zero on."""
    figure.draw_without_rendering()  # the places of the labels are known after it
    said: list[list[str]] = []
    for group in _groups(figure):
        for axis in group:
            _from_zero(axis)
        for twin in group[1:]:
            twin.grid(visible=False)
        drawn = _labelled(group)
        words = [label for _, label in drawn]
        if drawn and words not in said:
            _legend_below(figure, group[0], drawn)
            said.append(words)


def _labelled(group: list[Any]) -> list[tuple[Any, str]]:
    """What is to be in the legend of a group; a legend that somebody set before goes."""
    for axis in group:
        if (old := axis.get_legend()) is not None:
            old.remove()
    return [pair for axis in group for pair in zip(*axis.get_legend_handles_labels(), strict=True)]


def _groups(figure: Any) -> list[list[Any]]:
    """Axes that lie on each other (``twinx``) belong together."""
    groups: dict[Any, list[Any]] = {}
    for axis in figure.axes:
        groups.setdefault(axis.get_subplotspec(), []).append(axis)
    return list(groups.values())


def _from_zero(axis: Any) -> None:
    for scale, least, view, begin in (
        (axis.get_xscale(), axis.dataLim.xmin, axis.get_xlim(), axis.set_xlim),
        (axis.get_yscale(), axis.dataLim.ymin, axis.get_ylim(), axis.set_ylim),
    ):
        if scale == "linear" and least >= 0.0 > min(view):
            begin(0.0, max(view))


def _legend_below(figure: Any, axis: Any, drawn: list[tuple[Any, str]]) -> None:
    """A legend below what is below the axes already, in as many columns as fit."""
    words = axis.xaxis.get_tightbbox()  # none where another plot below has them
    below = axis.get_window_extent().y0 - words.y0 if words else 0.0
    size = figure.dpi / 72.0 * _STYLE["legend.fontsize"]
    for columns in range(min(len(drawn), 6), 0, -1):
        legend = axis.legend(
            *zip(*drawn, strict=True), ncols=columns, loc="upper left", bbox_to_anchor=(0.0, 0.0),
            borderaxespad=max(below, 0.0) / size + 0.4,
        )  # fmt: skip
        if legend.get_window_extent().width <= 0.92 * axis.get_window_extent().width:
            return


def _write(figure: Any, path: Path | BytesIO) -> None:
    """Write the file whole or not at all."""
    if not isinstance(path, Path):
        figure.savefig(path, format="png")
        return
    part = path.with_name(f".{path.name}.part")
    try:
        figure.savefig(part, format=path.suffix.lstrip(".") or "png")
        part.replace(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PenstockError(
            f"Cannot write the plot '{path}' ({reason}); name another place, ending in .png."
        ) from None
    finally:
        with suppress(OSError):  # where nothing can be written, nothing is left behind
            part.unlink(missing_ok=True)
