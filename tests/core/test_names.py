"""Names are not paths."""

import pytest

from penstock.core.errors import PenstockError
from penstock.core.names import check_name
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator

BAD = [
    "../../x",
    "/etc/x",
    "a/b",
    "..",
    ".hidden",
    "",
    "  ",
    "a\0b",
    "a\nb",
    "\\x",
    "x" * 101,
    "_staging",
    None,
    3,
]


@pytest.mark.parametrize("name", BAD)
def test_what_could_be_a_path_is_refused_in_one_sentence(name):
    @operator(output={"x": int})
    def keep(rows, output):
        output.emit(rows.table)

    graph = Graph("flow")
    rows = graph.source("rows", {"x": int})
    with pytest.raises(PenstockError):
        check_name(name, "query")
    with pytest.raises(PenstockError):
        Graph(name)
    with pytest.raises(PenstockError):
        graph.source(name, {"x": int})
    with pytest.raises(PenstockError):
        rows.sink(name)
    if name:
        with pytest.raises(PenstockError):
            rows.through(keep, name=name)


@pytest.mark.parametrize("name", ["words", "word counts", "_parse", "größe", "a.b", "x-1"])
def test_other_names_are_fine(name):
    assert check_name(name, "query") == name
