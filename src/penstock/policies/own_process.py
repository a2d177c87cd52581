"""A policy that thinks in a process of its own, so that the program that runs the query keeps its interpreter.

The process is started without the user's program: it reads pickled questions from its standard input and writes pickled
answers. Where it cannot be used (a policy that is defined in the user's own script), the policy thinks here, as without it.
"""

import contextlib
import os
import pickle
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from penstock.core.decision import Decision
from penstock.core.observation import Observation
from penstock.core.policy import AnyPolicy
from penstock.policies.around import Around

_LENGTH = struct.Struct("<Q")


@dataclass(eq=False)
class Thinker:
    """The process; started by the first question."""

    _process: "subprocess.Popen[bytes] | None" = None
    #: CPU seconds that thinking has cost so far, and why the process is not used, if so.
    cpu: float = 0.0
    problem: str = ""

    def ask(self, policy: AnyPolicy, state: Any, observation: Observation) -> tuple[Any, Decision] | None:
        """The answer, or None where the process cannot give one."""
        if self.problem:
            return None
        try:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            pipes = self._process
            assert pipes.stdin is not None
            assert pipes.stdout is not None
            _write(pipes.stdin, (policy, state, observation))
            answer, self.cpu = _read(pipes.stdout)
        except (OSError, EOFError, pickle.PickleError, AttributeError, TypeError) as error:
            answer = error
        if isinstance(answer, Exception):
            self.problem = f"{type(answer).__name__}: {answer}"
            self.close()
            return None
        found: tuple[Any, Decision] = answer
        return found

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # it ended before what was written reached it
                    pipe.close()
        process.wait(timeout=30)

    def __getstate__(self) -> dict[str, Any]:
        return {"_process": None, "cpu": self.cpu, "problem": self.problem}


@dataclass(frozen=True, slots=True)
class OwnProcess(Around):
    """Another policy, asked in a process of its own; ``close`` ends the process.

    >>> from penstock.policies import Static
    >>> policy = OwnProcess(Static(executors=2))
    >>> policy.name, policy.start() == Static().start()
    ('Static', True)
    """

    thinker: Thinker = field(default_factory=Thinker, compare=False, repr=False)

    def step(self, state: Any, observation: Observation) -> tuple[Any, Decision]:
        """What the policy answers."""
        answer = self.thinker.ask(self.policy, state, observation)
        found: tuple[Any, Decision] = self.policy.step(state, observation) if answer is None else answer
        return found

    def close(self) -> None:
        """End the process."""
        self.thinker.close()


def _write(pipe: BinaryIO | Any, value: Any) -> None:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _read(pipe: BinaryIO | Any) -> Any:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError("the process of the policy has ended")
    (length,) = _LENGTH.unpack(head)
    return pickle.loads(pipe.read(length))


def _serve() -> None:
    """Answer until the other side goes away."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not get between the answers
    with contextlib.suppress(OSError):
        os.nice(5)
    while True:
        try:
            policy, state, observation = _read(sys.stdin.buffer)
        except EOFError:
            return
        except Exception as error:  # noqa: BLE001 - a policy of the user's script is unknown here
            answer: Any = RuntimeError(str(error))
        else:
            try:
                answer = policy.step(state, observation)
            except Exception as error:  # noqa: BLE001 - told to the one who asked
                answer = RuntimeError(f"{type(error).__name__}: {error}")
        _write(answers, (answer, time.process_time()))


if __name__ == "__main__":
    _serve()
