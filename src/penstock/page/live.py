"""The page beside a run: fed by the run's controller, which it can pause."""

import time
from typing import Any

from penstock.core.controller import Controller
from penstock.core.journal import FileJournal
from penstock.page.server import PageServer
from penstock.page.story import Story

#: Bytes of a journal from earlier starts that the page of a new one still begins with.
MOST_HISTORY = 20_000_000


def serve_page(address: str, controller: Controller[Any]) -> PageServer:
    """Serve the page of a controller that has not been started yet."""
    story, journal = Story(), controller.journal.inner
    if isinstance(journal, FileJournal) and journal.path.stat().st_size < MOST_HISTORY:
        story.take_all(journal.tables().records)
    else:
        story.take({"kind": "run", "started": time.time(), **_header(controller)})
    server = PageServer(address, story, None if controller.policy is None else controller)
    controller.journal.readers.append(story.take)
    return server.start()


def _header(controller: Controller[Any]) -> dict[str, Any]:
    """What a journal of another kind says of the run, if anything."""
    try:
        runs = [r for r in controller.journal.tables().records if r.get("kind") == "run"]
    except Exception:  # noqa: BLE001 - a journal may be the user's own, and the page can do without
        return {}
    return dict(runs[-1]) if runs else {}
