"""A thread in which a policy may think for as long as it likes."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.core.observation import Observation

A = TypeVar("A")


class PolicyThread(Generic[A]):
    """Answers one question at a time; ``wake`` is set when an answer is there.

    The thread is a daemon: a policy that never answers does not keep the process alive.
    """

    def __init__(self, answer: Callable[[Observation], A], wake: threading.Event) -> None:
        self._answer, self._wake = answer, wake
        self._question: Observation | None = None
        self._asked = threading.Event()
        self._done: A | None = None
        self._ended = False
        #: CPU seconds that thinking has cost so far.
        self.cpu = 0.0
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a question is open, or its answer not taken yet."""
        return self._question is not None

    def ask(self, question: Observation) -> None:
        """Begin to answer; only when not busy."""
        self._question, self._done = question, None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-policy", daemon=True)
            self._thread.start()
        self._asked.set()

    def take(self) -> A | None:
        """The answer, once; None while there is none."""
        done = self._done
        if done is not None:
            self._question = self._done = None
        return done

    def end(self) -> None:
        """Answer no more; a question that is open may still run to its end."""
        self._ended = True
        self._asked.set()

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._ended or self._question is None:
                return
            done = self._answer(self._question)
            self.cpu = time.thread_time()
            self._done = done
            self._wake.set()
