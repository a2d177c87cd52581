"""The wall clock: the only place of the control plane where real time is read."""

import threading
import time as _time


class WallClock:
    """Seconds since it was made; a wait ends early when ``stop`` is called."""

    def __init__(self) -> None:
        self._start = _time.monotonic()
        self._stopped = threading.Event()

    def now(self) -> float:
        """Seconds since the clock was made."""
        return _time.monotonic() - self._start

    def wait_until(self, time: float) -> bool:
        """Sleep until then; False once stopped."""
        self._stopped.wait(max(0.0, time - self.now()))
        return not self._stopped.is_set()

    def stop(self) -> None:
        """End the present wait and all later ones at once."""
        self._stopped.set()
