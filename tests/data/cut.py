"""Cut the excerpts of this folder out of the whole recordings: ``python tests/data/cut.py FOLDER``."""

import gzip
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

HERE = Path(__file__).parent


def lines(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as file:
        yield from file


def write(name: str, kept: list[bytes]) -> None:
    """Without a time of day in its header, so that the same cut is the same file."""
    with (HERE / name).open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.writelines(kept)


def head(source: Path, name: str, rows: int, step: int = 1) -> None:
    """The header, and every ``step``-th row until there are so many."""
    read = lines(source / name)
    write(name, [next(read), *islice(read, 0, rows * step, step)])


def columns(source: Path, name: str, rows: int, count: int) -> None:
    """The first columns of the first rows."""
    kept = islice(lines(source / name), rows + 1)
    write(name, [b",".join(line.rstrip(b"\n").split(b",")[:count]) + b"\n" for line in kept])


def around_the_peak(source: Path, name: str, before: int, after: int) -> None:
    header, *rows = lines(source / name)
    peak = max(range(len(rows)), key=lambda i: int(rows[i].rsplit(b",", 1)[1]))
    write(name, [header, *rows[peak - before : peak + after]])


def between(source: Path, name: str, first: int, last: int, rows: int) -> None:
    """Rows of a span of milliseconds, every so many-th so that about ``rows`` are left."""
    header, *all_rows = lines(source / name)
    inside = [row for row in all_rows if first <= int(row.split(b",", 1)[0]) < last]
    write(name, [header, *inside[:: max(1, len(inside) // rows)]])


def main(source: Path) -> None:
    head(source, "bc_paug89.csv.gz", 8000)
    around_the_peak(source, "worldcup98_per_minute.csv.gz", 700, 700)
    head(source, "azure_llm_2023_code.csv.gz", 1500)
    head(source, "azure_llm_2023_conv.csv.gz", 1500)
    head(source, "nba_8d_17264.csv.gz", 1000, step=17)
    head(source, "diamonds_53940.csv.gz", 1500, step=35)
    columns(source, "nycflights13_ooo.csv.gz", 8000, 2)
    between(source, "us_equity_quotes_20131010.csv.gz", 34_200_000, 34_230_000, 4000)
    between(source, "us_equity_trades_20131010.csv.gz", 34_200_000, 34_230_000, 1000)
    write("sshd_secrepo_10k.log.gz", list(islice(lines(source / "sshd_secrepo_10k.log.gz"), 2000)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
