"""What is promised of every picture; the tests hold each one to it that they draw."""

from itertools import pairwise


def legends(figure):
    return [axis.get_legend() for axis in figure.axes if axis.get_legend()]


def check(figure):
    """Legends lie over no plot and are whole, axes do not go below zero where nothing is, ticks can be read."""
    figure.draw_without_rendering()
    plots = [axis.get_window_extent() for axis in figure.axes]
    for legend in legends(figure):
        place = legend.get_window_extent()
        assert not any(place.overlaps(plot) for plot in plots), "a legend lies over a curve"
        assert place.y0 >= -1, "a legend is cut off"
        assert place.x1 <= figure.bbox.x1 + 1, "a legend is cut off"
    for axis in figure.axes:
        for scale, view, least in (
            (axis.get_xscale(), axis.get_xlim(), axis.dataLim.xmin),
            (axis.get_yscale(), axis.get_ylim(), axis.dataLim.ymin),
        ):
            assert scale != "linear" or least < 0 or min(view) >= 0, "an axis goes below zero"
        for ticks in (axis.get_xticklabels(), axis.get_yticklabels()):
            shown = [t for t in ticks if t.get_visible() and t.get_text()]
            places = [t.get_window_extent() for t in shown]
            level = all(t.get_rotation() == 0 for t in shown)
            assert not level or not any(a.overlaps(b) for a, b in pairwise(places)), (
                "ticks lie over each other"
            )


def lightness(colour):
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """How far two colours stand apart, from 1 to 21."""
    dark, light = sorted((lightness(one), lightness(other)))
    return (light + 0.05) / (dark + 0.05)
