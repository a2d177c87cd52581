"""What sources and topics share: settings of a client, and its errors in one sentence."""

import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.runtime.source_away import SourceAwayError

#: Seconds that one question to the brokers may take.
PATIENCE = 10.0

_SECRET_WORDS = ("password", "secret", "key", "token", "jaas", "pem")


def confluent() -> ModuleType:
    """The client library, or one sentence on how to get it."""
    try:
        import confluent_kafka
    except ImportError:
        raise PenstockError(
            "Kafka needs the package confluent-kafka: pip install 'penstock[kafka]'."
        ) from None
    library: ModuleType = confluent_kafka
    return library


def admin_of(settings: Mapping[str, Any]) -> Any:
    """A client that asks brokers about topics and offsets."""
    confluent()
    from confluent_kafka.admin import AdminClient

    return AdminClient(dict(settings))


class LastWords:
    """Keeps what a client last complained about: librdkafka tells the cause here, and callers only of a time-out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""

    def hear(self, error: Any) -> None:
        """Called by the client, in any thread."""
        with self._lock:
            self._text = str(error.str())

    def __str__(self) -> str:
        with self._lock:
            return self._text

    def added_to(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a client that complains here and prints nothing."""
        return {**settings, "error_cb": self.hear, "log_level": 0}


def away(servers: str, cause: object) -> SourceAwayError:
    """The sentence for brokers that do not answer."""
    said = _in_short(cause)
    reason = f" ({said})" if said else ""
    return SourceAwayError(
        f"No Kafka broker answers at '{servers}'{reason}; look whether it runs, and whether address and credentials are right."
    )


def is_retriable(error: Any) -> bool:
    """Whether the cause of an error of the client may go away by itself."""
    library = confluent()
    codes = library.KafkaError
    passing = {
        codes._TRANSPORT,
        codes._ALL_BROKERS_DOWN,
        codes._TIMED_OUT,
        codes._TIMED_OUT_QUEUE,
        codes._RESOLVE,
        codes._AUTHENTICATION,
        codes.REQUEST_TIMED_OUT,
        codes._NOENT,  # no leaders of partitions, as brokers come back
        codes.LEADER_NOT_AVAILABLE,
        codes.UNKNOWN_LEADER_EPOCH,
        codes.FENCED_LEADER_EPOCH,
        codes.OFFSET_NOT_AVAILABLE,
        codes.NOT_LEADER_FOR_PARTITION,
        codes.BROKER_NOT_AVAILABLE,
        codes.REPLICA_NOT_AVAILABLE,
        codes.NETWORK_EXCEPTION,
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.NOT_COORDINATOR,
    }
    return bool(error.code() in passing or error.retriable())


def kafka_error(exception: Any) -> Any:
    """The error inside an exception of the client."""
    return exception.args[0] if exception.args else exception


def shown(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without what must not be read by others.

    >>> shown({"bootstrap.servers": "a:1", "sasl.password": "x"})
    {'bootstrap.servers': 'a:1', 'sasl.password': '***'}
    """
    return {k: "***" if any(w in k.lower() for w in _SECRET_WORDS) else v for k, v in settings.items()}


def _in_short(cause: object) -> str:
    """A cause without the client's own prefixes, as part of a sentence."""
    text = str(cause).strip().rstrip(".")
    return text.splitlines()[0] if text else ""
