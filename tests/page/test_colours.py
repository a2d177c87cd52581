"""Text of the page stands out from what is behind it; axe cannot tell for the text in the graph of the flow."""

import re

import pytest

from drawn import contrast
from penstock.page.document import part


def schemes():
    """The colours by name, of the light page and of the dark one."""
    light, dark = re.findall(r":root \{(.*?)\}", part("page.css"), re.DOTALL)
    colours = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6,8})", text)) for text in (light, dark)]
    assert set(colours[1]) == set(colours[0])
    return {"light": colours[0], "dark": colours[1]}


def mixed(over, under, share):
    parts = [(int(over[i : i + 2], 16), int(under[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in parts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_wherever_it_stands(scheme):
    colours = schemes()[scheme]
    hot = float(re.search(r"#graph \.hot \{ fill: var\(--bad\); opacity: ([.\d]+)", part("page.css"))[1])
    fill = int(colours["fill"][7:], 16) / 255
    grounds = {name: colours[name] for name in ("ground", "card")} | {
        "overloaded": mixed(colours["bad"], colours["card"], hot),
        "busy": mixed(colours["fill"], colours["card"], fill),
    }
    for name, ground in grounds.items():
        for text in ("ink", "quiet"):
            assert contrast(colours[text], ground) >= 4.5, (text, name)
    for text, ground in (("ink", "made"), ("ink", "warn"), ("good", "ground"), ("bad", "ground")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for curve in "abcdef":
        assert contrast(colours[curve], colours["ground"]) >= 3, curve
