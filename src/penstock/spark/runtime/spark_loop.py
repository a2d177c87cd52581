"""Batches that a Structured Streaming query makes: the same face as :class:`~penstock.spark.runtime.own_loop.OwnLoop`."""

import threading

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.runtime.source_away import told_by_source


class SparkLoop:
    """A query of Spark's, waited for by a thread of its own.

    Whoever waits for the run then waits in Python: Ctrl-C in the midst of a call into Java would have Py4J hang up on all
    other threads as well, and with them on the batch at hand.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self.error: BaseException | None = None
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="penstock-query", daemon=True).start()

    @property
    def active(self) -> bool:
        """Whether batches are still made."""
        return not self._over.is_set()

    def stop(self) -> None:
        """End; the jobs of the batch at hand are cancelled."""
        self.query.stop()
        self._over.set()

    def wait(self, seconds: float | None) -> bool:
        """Wait for the end; whether it has come."""
        return self._over.wait(seconds)

    def _watch(self) -> None:
        try:
            self.query.awaitTermination()
        except StreamingQueryException as error:
            self.error = told_by_source(error) or error
        except Exception as error:  # noqa: BLE001 - the JVM is gone; told to whoever waits for the run
            self.error = error
        finally:
            self._over.set()
