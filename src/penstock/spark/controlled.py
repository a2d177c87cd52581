"""What the handles of runs and of attached queries have in common: a controller, and where its figures are served."""

from typing import Any

from penstock.core.controller import Controller
from penstock.page.server import PageServer
from penstock.spark.metrics_endpoint import MetricsEndpoint


class Controlled:
    """Something with a controller that can be paused and looked at."""

    #: Observes, decides and records.
    controller: Controller[Any]
    _endpoint: MetricsEndpoint | None = None
    _page: PageServer | None = None

    def pause(self) -> None:
        """Go on observing and deciding, but let the policy change nothing until :meth:`resume`."""
        self.controller.pause()

    def resume(self) -> None:
        """Let the policy change things again."""
        self.controller.resume()

    @property
    def metrics_address(self) -> str:
        """Where the metrics are served; empty where they are not."""
        return self._endpoint.address if self._endpoint is not None else ""

    @property
    def page_address(self) -> str:
        """Where the live page is served, with the token; empty where it is not."""
        return self._page.address if self._page is not None else ""
