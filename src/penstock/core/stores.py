"""Addresses in object stores, ``s3://bucket/path``, with the few things that a run does to its files there.

An object is there as a whole or not at all, so nothing needs to be renamed; and it can be put *unless there is one
already*, which is all that a commit needs. :class:`StorePath` has the methods of :class:`pathlib.Path` that runs use,
so most code need not know where its files are. The stores themselves are spoken to by ``obstore``
(``pip install 'penstock[stores]'``), which takes credentials from the environment as other tools do.
"""

import contextlib
import functools
import os
import posixpath
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from penstock.core.errors import PenstockError

#: What an address begins with. ``memory`` is a store inside this process, for tests.
SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "memory")

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}([^/]+)/?(.*)", re.DOTALL)

#: How often and how long a store that does not answer is tried again before a run gives up.
TRIES, PATIENCE = 20, timedelta(minutes=3)

R = TypeVar("R")


@dataclass(frozen=True)
class Tag:
    """What tells an object from others that had its key; some stores go by the one mark, some (Google's) by the other."""

    e_tag: str | None
    version: str | None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Tag":
        """What a store tells of an object."""
        return cls(told.get("e_tag"), told.get("version"))

    @property
    def condition(self) -> dict[str, str]:
        """That an object is still this one, as a put takes it."""
        marks = {"e_tag": self.e_tag, "version": self.version}
        return {name: mark for name, mark in marks.items() if mark is not None}


@dataclass(frozen=True, order=True)
class StorePath:
    """A place in an object store: the store's address, and a key.

    >>> place = StorePath.of("s3://bucket/runs/ck") / "penstock" / "id"
    >>> str(place), place.name, str(place.parent)
    ('s3://bucket/runs/ck/penstock/id', 'id', 's3://bucket/runs/ck/penstock')
    """

    base: str
    key: str

    @classmethod
    def of(cls, address: str) -> "StorePath":
        """The place that an address names; one slash too few, as ``Path`` leaves it, is made good."""
        found = _ADDRESS.fullmatch(address)
        if found is None or found[1] not in SCHEMES:
            raise PenstockError(
                f"'{address}' is no address of an object store that Penstock knows; write s3://BUCKET/PATH, gs://BUCKET/PATH "
                "or az://CONTAINER/PATH."
            )
        return cls(f"{found[1]}://{found[2]}", _normal(found[3]))

    def __str__(self) -> str:
        return f"{self.base}/{self.key}" if self.key else self.base

    def __truediv__(self, name: str) -> "StorePath":
        return StorePath(self.base, _normal(f"{self.key}/{name}"))

    @property
    def name(self) -> str:
        """The last part of the key."""
        return posixpath.basename(self.key)

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return Path(self.name).stem

    @property
    def parent(self) -> "StorePath":
        """The place it is in."""
        return StorePath(self.base, posixpath.dirname(self.key))

    def with_suffix(self, suffix: str) -> "StorePath":
        """The place beside it with another ending."""
        return self.parent / Path(self.name).with_suffix(suffix).name

    def exists(self) -> bool:
        """Whether there is an object."""
        return self.tag is not None

    def size(self) -> int:
        """Its bytes."""
        return int(self._ask(lambda o, s: o.head(s, self.key))["size"])

    def read_bytes(self) -> bytes:
        """The object."""
        return bytes(self._ask(lambda o, s: o.get(s, self.key).bytes()))

    def read_text(self) -> str:
        """The object as text."""
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes | Path) -> None:
        """Put an object (or the contents of a file), in the place of any that is there."""
        self._ask(lambda o, s: o.put(s, self.key, data))

    def write_text(self, text: str) -> None:
        """Put a text."""
        self.write_bytes(text.encode())

    def touch(self) -> None:
        """Put an empty object."""
        self.write_bytes(b"")

    def create(self, data: bytes) -> Tag | None:
        """Put an object where there is none; gives its tag, or None where there is another one already."""
        return self._put(data, "create")

    def swap(self, data: bytes, tag: Tag) -> Tag | None:
        """Put an object in the place of the one with a tag; gives the new tag, or None where it is another by now."""
        return self._put(data, tag.condition)

    def _put(self, data: bytes, mode: Any) -> Tag | None:
        exceptions = _obstore().exceptions
        try:
            return Tag.of(self._ask(lambda o, s: o.put(s, self.key, data, mode=mode)))
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            # The answer to the first try may have been lost and the put tried again: then it is our own.
            same = self.exists() and self.read_bytes() == data
            return self.tag if same else None

    @property
    def tag(self) -> Tag | None:
        """What tells this object from others that had its key; None where there is none."""
        try:
            return Tag.of(self._ask(lambda o, s: o.head(s, self.key)))
        except FileNotFoundError:
            return None

    def copy_to(self, target: "StorePath") -> None:
        """Have the same object there too; the store copies it."""
        self._ask(lambda o, s: o.copy(s, self.key, target.key))

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""
        if not missing_ok and not self.exists():
            raise FileNotFoundError(str(self))
        remove_objects([self])

    def iterdir(self) -> Iterator["StorePath"]:
        """The objects right here."""
        found = self._ask(lambda o, s: o.list_with_delimiter(s, self.key))
        return iter([StorePath(self.base, str(m["path"])) for m in found["objects"]])

    def glob(self, pattern: str) -> Iterator["StorePath"]:
        """The objects below whose keys, from here on, look like a pattern; a star stops at a slash."""
        depth = pattern.count("/")
        for path in self.below():
            inside = path.key.removeprefix(f"{self.key}/")
            if inside.count("/") == depth and all(map(fnmatchcase, inside.split("/"), pattern.split("/"))):
                yield path

    def below(self) -> Iterator["StorePath"]:
        """All objects below."""
        found = self._ask(lambda o, s: o.list(s, self.key or None).collect())
        return iter([StorePath(self.base, str(m["path"])) for m in found])

    def _ask(self, what: Callable[[Any, Any], R]) -> R:
        return _asked(self.base, str(self), what)


def is_store(place: object) -> bool:
    """Whether something names a place in an object store; folders of this machine, also as ``file:``, are none.

    >>> is_store("s3://bucket/ck"), is_store("/data/ck"), is_store("file:///data/ck")
    (True, False, False)
    """
    if isinstance(place, StorePath):
        return True
    found = _ADDRESS.fullmatch(str(place))
    return found is not None and found[1] != "file" and not Path(str(place)).is_absolute()


def remove_objects(places: Iterable[StorePath]) -> None:
    """Remove objects, many at a time; what is not there is no matter."""
    by_base: dict[str, list[str]] = {}
    for place in places:
        by_base.setdefault(place.base, []).append(place.key)
    for base, keys in by_base.items():
        if base.startswith("s3"):
            _asked(base, base, lambda o, s, keys=keys: o.delete(s, keys))  # type: ignore[misc]
        else:
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    _asked(base, f"{base}/{key}", lambda o, s, key=key: o.delete(s, key))  # type: ignore[misc]


_tried: set[StorePath] = set()
_swapping: set[str] = set()


def check_store(place: StorePath, what: str) -> None:
    """Try at a start whether a store can do what a run needs, or say in one sentence why not."""
    if place in _tried:
        return
    probe = place / f"_try-{uuid.uuid4().hex}"
    exceptions = _obstore().exceptions
    try:
        heeds = _heeds_conditions(probe)
        probe.unlink(missing_ok=True)
        if not heeds:
            raise PenstockError(
                f"The store of the {what} '{place}' puts an object over another one although it was told not to "
                "(no conditional put), so a commit cannot be told from a later one; name a place in another store."
            )
    except exceptions.NotSupportedError:
        raise PenstockError(
            f"The store of the {what} '{place}' cannot put an object only where there is none, or only over one that is "
            "known (no conditional put), which a commit needs; name a place in another store."
        ) from None
    except FileNotFoundError:
        raise PenstockError(
            f"There is no '{place.base}' for the {what} '{place}'; make the bucket, or name one that is there."
        ) from None
    _tried.add(place)


def _heeds_conditions(probe: StorePath) -> bool:
    """Whether a store puts an object only where there is none; and, tried once a store, only over one that is known."""
    first = probe.create(b"1")
    if first is None or probe.create(b"2") is not None:
        return False
    if probe.base not in _swapping:
        if probe.swap(b"3", first) is None or probe.swap(b"4", first) is not None:
            return False
        _swapping.add(probe.base)
    return True


def _asked(base: str, where: str, what: Callable[[Any, Any], R]) -> R:
    """Ask a store; what goes wrong is told in one sentence, but for what callers expect."""
    obstore = _obstore()
    exceptions = obstore.exceptions
    try:
        return what(obstore, _opened(base))
    except exceptions.NotFoundError:
        raise FileNotFoundError(where) from None
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError, exceptions.NotSupportedError):
        raise
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise PenstockError(
            f"The object store refuses '{where}' ({_reason(error)}); check the credentials in the environment "
            "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://) and what they allow."
        ) from None
    except exceptions.BaseError as error:
        raise PenstockError(
            f"The object store of '{where}' cannot be used ({_reason(error)}); check the address, the network and the "
            "credentials in the environment."
        ) from None


def _reason(error: Exception) -> str:
    """The first line of what the store said, without what follows for developers."""
    text = str(error).split("\n\nDebug source")[0]
    inner = re.search(r"<Message>(.*?)</Message>", text)
    return " ".join((inner[1] if inner else text).split())[:300].rstrip(". ")


def _normal(key: str) -> str:
    return posixpath.normpath(key).lstrip("/") if key.strip("/") else ""


_opening = threading.Lock()


def _opened(base: str) -> Any:
    with _opening:
        return _store(base)


@functools.cache
def _store(base: str) -> Any:
    obstore = _obstore()
    if base.startswith("memory:"):
        return obstore.store.MemoryStore()
    try:
        return obstore.store.from_url(base, **_settings())
    except obstore.exceptions.BaseError as error:
        raise PenstockError(f"The object store '{base}' cannot be used ({_reason(error)}).") from None


def _settings() -> dict[str, Any]:
    """Plain HTTP where the environment names such an address; and patience."""
    address = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
    allowed = any(
        os.environ.get(f"{who}_ALLOW_HTTP", "").lower() == "true" for who in ("AWS", "AZURE", "GOOGLE")
    )
    plain = {"allow_http": True} if allowed or address.startswith("http://") else {}
    return {"client_options": {**plain}, "retry_config": {"max_retries": TRIES, "retry_timeout": PATIENCE}}


@functools.cache
def _obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise PenstockError(
            "Object stores need the package obstore; run: pip install 'penstock[stores]'."
        ) from None
    return obstore
