"""What runs without Spark have in common: micro-batches are fed to them by hand."""

from penstock.spark.runtime.batches import P
from penstock.spark.runtime.engine import ResidentEngine
from penstock.spark.runtime.engine_choice import EngineChoice
from penstock.spark.runtime.microbatch import MicroBatchRun


class FedByHand(MicroBatchRun[P]):
    """A run that makes no batches by itself."""

    @property
    def next_batch(self) -> int:
        """The number of the batch after the last one that is committed."""
        return 0 if self._latest is None else self._latest.batch + 1

    def use(self, engine: ResidentEngine) -> None:
        """Carry out the stages of the next batches by resident workers."""
        self._resident = engine
        self._choice = EngineChoice("resident", 64, "given by hand")

    def finish(self) -> None:
        """End the run: what the last batch left to the next one is done and committed."""
        self._end()
        if self._error is not None:
            raise self._error
