"""Where the files of a run are: in folders of a mounted file system, or in an object store.

Both take the same words of ``pathlib``. What differs is here: how a file gets its name (a rename here, one put there),
what a copy costs, and that state in a store is read through a cache on the worker's own disk.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.stores import StorePath, check_store, is_store, remove_objects
from penstock.spark.runtime.paths import local_path, make_folder

#: A folder or a file of a run.
Location = Path | StorePath


def location(place: str | Path | StorePath, what: str = "run's") -> Location:
    """The place that a path or an address names.

    >>> location("/data/out"), str(location("s3://bucket/out") / "part-1.parquet")
    (PosixPath('/data/out'), 's3://bucket/out/part-1.parquet')
    """
    if isinstance(place, StorePath):
        return place
    return StorePath.of(str(place)) if is_store(place) else Path(local_path(place, what))


def prepare(place: Location, what: str) -> None:
    """See to it that files can be written here, or say in one sentence why they cannot."""
    if isinstance(place, StorePath):
        check_store(place, what)
    else:
        make_folder(place, what)


def size_of(place: Location) -> int:
    """Bytes of a file."""
    return place.size() if isinstance(place, StorePath) else place.stat().st_size


def read_parquet(place: Location, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a Parquet file, with some columns or all of them."""
    source = pa.BufferReader(place.read_bytes()) if isinstance(place, StorePath) else place
    return pq.read_table(source, columns=None if columns is None else list(columns), partitioning=None)


def move(staged: Location, final: Location) -> None:
    """Make a finished file visible under its name; FileNotFoundError where it is not there (any more)."""
    if isinstance(staged, StorePath) and isinstance(final, StorePath):
        staged.copy_to(final)  # within the store: the rows do not pass through here
        staged.unlink(missing_ok=True)
    else:
        os.replace(str(staged), str(final))


def moved(pairs: Sequence[tuple[Location, Location]]) -> list[int]:
    """Move files, side by side where each is a request; gives the numbers of those that are not there (any more)."""

    def gone(pair: tuple[Location, Location]) -> bool:
        try:
            move(*pair)
        except FileNotFoundError:
            return True
        return False

    if len(pairs) > 1 and isinstance(pairs[0][0], StorePath):
        with ThreadPoolExecutor(min(16, len(pairs)), "penstock-publish") as pool:
            missing = list(pool.map(gone, pairs))
    else:
        missing = [gone(pair) for pair in pairs]
    return [at for at, is_gone in enumerate(missing) if is_gone]


def second_name(source: Location, target: Location) -> None:
    """Have a file under another name too."""
    if isinstance(source, StorePath) and isinstance(target, StorePath):
        source.copy_to(target)
        return
    try:
        os.link(str(source), str(target))
    except OSError:  # a file system without links
        shutil.copyfile(str(source), str(target))


def remove(places: Iterable[Location]) -> None:
    """Remove files, of which some may be gone already."""
    objects = []
    for place in places:
        if isinstance(place, StorePath):
            objects.append(place)
        else:
            place.unlink(missing_ok=True)
    if objects:
        remove_objects(objects)
