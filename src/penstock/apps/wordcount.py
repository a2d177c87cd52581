"""Word count (Joker 5.4): sentences to words, a running count for each word."""

import gzip
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.apps.flow_app import OPTIONS as COMMON
from penstock.apps.flow_app import Largest, checked, ends, pieces, recorded, run_app, whole
from penstock.apps.own_data import is_topic, lines_of, topic_lines
from penstock.apps.summary import Option, Summary
from penstock.core.arrays import Ints
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.operators import operator
from penstock.dataflow.rows import Rows
from penstock.dataflow.running_figures import running_count

HELP = "count words of a stream of sentences; the running count of each word comes out"
OPTIONS: Mapping[str, Option] = {
    **COMMON,
    "column": Option("line", "the column of the lines, where --input is CSV or Parquet"),
    "show": Option("10", "words to show, most frequent first"),
}

WORDS_A_LINE = 8
_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "ri", "so", "tu", "va", "ze")
VOCABULARY = pa.array([a + b + c for a in _SYLLABLES for b in _SYLLABLES for c in _SYLLABLES])
#: Words of an everyday English dictionary, about.
ENGLISH = 50_000
#: Whatever is neither a printable character of ASCII nor one of its usual blanks.
_NOT_PLAIN = r"[^\t-\r -~]"


@operator(inputs={"in": {"value": "int64"}}, output={"line": str})
def write_lines(rows: Rows, output: Any) -> None:
    """Sentences out of numbers: the same number gives the same sentence."""
    words = [VOCABULARY.take(pa.array(_word(rows["value"], at))) for at in range(WORDS_A_LINE)]
    output.emit({"line": pc.binary_join_element_wise(*words, " ")})


@operator(inputs={"in": {"line": str}}, output={"word": str})
def split(rows: Rows, output: Any) -> None:
    """Words of each line, in lower case."""
    lines = pa.concat_arrays(rows.column("line").chunks) if len(rows) else pa.array([], pa.string())
    lower = pc.ascii_lower(lines)
    if not _surely_plain(lines):
        # Arrow and Python differ on some letters and blanks; where there may be such, Python's word counts.
        other = pc.match_substring_regex(lines, _NOT_PLAIN)
        parted = [" ".join(line.lower().split()) for line in lines.filter(other).to_pylist()]
        lower = pc.replace_with_mask(lower, other, pa.array(parted, lower.type))
    lists = pc.ascii_split_whitespace(lower)
    at = pc.list_parent_indices(lists).to_numpy()
    words = lists.flatten()
    full = np.flatnonzero(pc.binary_length(words).to_numpy(zero_copy_only=False) > 0)
    output.emit({"word": words.take(pa.array(full))}, at=rows.positions[at[full]])


@operator(keys="word", state={"count": "int64"}, output={"word": str, "count": "int64"})
def count(rows: Rows, state: Any, output: Any) -> None:
    """The count of a word each time it comes."""
    output.emit({"word": rows.column("word"), "count": running_count(rows.slots, state["count"])})


def build(lines: Stream) -> Stream:
    """The flow from lines to counts."""
    return lines.through(split).through(count)


def oracle(lines: Iterable[str]) -> Counter[str]:
    """The same answer in three lines of Python."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.lower().split())
    return counts


def sentences(numbers: int) -> list[str]:
    """The first sentences of the synthetic source."""
    values = np.arange(numbers)
    words = [VOCABULARY.take(pa.array(_word(values, at))) for at in range(WORDS_A_LINE)]
    listed: list[str] = pc.binary_join_element_wise(*words, " ").to_pylist()
    return listed


def text(lines: int, words: int = ENGLISH, seed: int = 0) -> pa.Array:
    """Lines with as many words as English has, each as frequent as Zipf's law says: the r-th by 1 / r."""
    known = pa.array(["".join(some) for some in islice(product(_SYLLABLES, repeat=5), words)])
    ranks = (words ** np.random.default_rng(seed).random((WORDS_A_LINE, lines))).astype(np.int64) - 1
    return pc.binary_join_element_wise(*[known.take(pa.array(row)) for row in ranks], " ")


def main(seconds: float, options: Mapping[str, str]) -> Summary:
    """Run the application."""
    kept = Largest("word", "count")
    recorded_lines = given_lines(options)  # before Spark starts: what cannot be read is told at once

    def flow(spark: Any, scratch: Path) -> Graph:
        from penstock.spark.flow.flow import Flow
        from penstock.spark.sources.demo_sources import numbers

        made = Flow("wordcount")
        lines = source_of_lines(made, spark, options, scratch, recorded_lines, 5000)
        if lines is None:
            lines = made.source("numbers", numbers(spark, whole(options, "rate"))).through(write_lines)
        build(lines).sink("counts", kept)
        return made

    ended = run_app(flow, seconds, options, lambda: len(recorded_lines))

    def equal() -> bool:
        lines = recorded_lines[: ended.rows] if recorded_lines else sentences(ended.rows)
        return oracle(lines) == Counter(kept.counts)

    right, verdict = checked(options, "a plain Python count of the same lines", equal, ended.rows_before)
    top = Counter(kept.counts).most_common(whole(options, "show"))
    notes = [verdict, *ended.notes]
    if options["source"] == "real" and not options["input"]:
        notes.append(
            "By hand: zcat sshd_secrepo_10k.log.gz | tr -s ' ' '\\n' | tr A-Z a-z | sort | uniq -c | sort -rn | head"
        )
    figures = {
        **ended.figures,
        "words": sum(kept.counts.values()),
        "distinct": len(kept.counts),
        "checked": right,
    }
    return Summary("wordcount", figures, ("word", "count"), top, notes)


def source_of_lines(
    flow: Graph, spark: Any, options: Mapping[str, str], scratch: Path, lines: Sequence[str], size: int = 2000
) -> Stream | None:
    """The messages of a topic as a source, or the ``lines`` of an input that has an end; None: they are to be made."""
    from penstock.spark.sources.demo_sources import played

    if is_topic(options["input"]):
        return flow.source("lines", topic_lines(spark, options["input"]))
    if not ends(options):
        return None
    return flow.source("lines", played(spark, pieces(pa.table({"line": lines}), size), scratch / "lines"))


def given_lines(options: Mapping[str, str]) -> list[str]:
    """The lines that a user names, or those of the recorded system log; none where the input has no end."""
    if not ends(options):
        return []
    if options["input"]:
        return lines_of(options["input"], options["column"])
    return log_lines(whole(options, "rows", 0))


def log_lines(limit: int = 0) -> list[str]:
    """Lines of the recorded system log."""
    with gzip.open(recorded("sshd_secrepo_10k.log.gz"), "rt", errors="replace") as file:
        lines = file.read().splitlines()
    return lines[:limit] if limit else lines


def _surely_plain(lines: pa.Array) -> bool:
    """Whether all bytes are printable ASCII, by a look that costs next to nothing; False means: look at each line."""
    held = lines.buffers()[2]
    data = np.frombuffer(held or b"", np.uint8)
    return not data.size or bool(data.min() >= 32 and data.max() < 127)


def _word(values: NDArray[Any], at: int) -> Ints:
    """Which word stands at a place of a sentence: frequent ones first, by the square of a pseudo-random share."""
    with np.errstate(over="ignore"):
        x = (values.astype(np.uint64) * np.uint64(WORDS_A_LINE) + np.uint64(at)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        x = (x ^ (x >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    share = ((x >> np.uint64(40)).astype(np.float64)) / 2**24
    chosen: Ints = (share**2 * len(VOCABULARY)).astype(np.int64)
    return chosen
