"""The page beside a run: fed by the run's controller, which it can pause."""

import time
from typing import Any

from penstock.core.controller import Controller
from penstock.core.journal import FileJournal
from penstock.core.store_journal import StoreJournal
from penstock.core.tables import parts_in_store, parts_of
from penstock.page.follow import record_of
from penstock.page.server import PageServer
from penstock.page.story import Story

#: Bytes of a journal from earlier starts that the page of a new one still begins with: it is read before the first batch.
MOST_HISTORY = 20_000_000


def serve_page(address: str, controller: Controller[Any]) -> PageServer:
    """Serve the page of a controller that has not been started yet."""
    story, journal = Story(), controller.journal.inner
    if not (isinstance(journal, FileJournal) and _has_taken(story, journal)):
        story.take({"kind": "run", "started": time.time(), **_header(controller)})
    server = PageServer(address, story, None if controller.policy is None else controller)
    controller.journal.readers.append(story.take)
    return server.start()


def _has_taken(story: Story, journal: FileJournal) -> bool:
    """Begin with the newest files of a journal that are not too much together; whether there were any."""
    files = [*parts_of(journal.path), journal.path]
    sizes = [file.stat().st_size for file in files]
    first = next((at for at in range(len(files)) if sum(sizes[at:]) <= MOST_HISTORY), len(files))
    for file in files[first:]:
        with file.open("rb") as lines:
            for line in lines:
                if (record := record_of(line, journal.path)) is not None:
                    story.take(record)
    if 0 < first < len(files):
        story.warn("The figures leave out the older parts of the journal; penstock report reads all of them.")
    return first < len(files)


def _header(controller: Controller[Any]) -> dict[str, Any]:
    """What a journal that is not read says of the run, if anything."""
    journal = controller.journal.inner
    try:
        if isinstance(journal, FileJournal):
            return dict(journal.header)
        if isinstance(journal, StoreJournal):  # its newest part is this run's, and begins with the header
            newest = parts_in_store(journal.path)[-1].read_bytes()
            return record_of(newest.partition(b"\n")[0], str(journal.path)) or {}
        runs = [r for r in journal.tables().records if r.get("kind") == "run"]
    except Exception:  # noqa: BLE001 - a journal may be the user's own, and the page can do without
        return {}
    return dict(runs[-1]) if runs else {}
