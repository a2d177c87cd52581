"""Arguments of a policy in words: ``high=0.8,limits=1:8,knob=executors``."""

from dataclasses import Field, fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from penstock.core.capacity import Knob
from penstock.core.errors import PenstockError, unknown


def parse(policy: type[Any], text: str) -> dict[str, Any]:
    """The arguments that the words give, each as the policy declares it.

    >>> from penstock.policies.threshold import Threshold
    >>> parse(Threshold, "high=0.8,limits=1:8")
    {'high': 0.8, 'limits': (1, 8)}
    """
    known: dict[str, Field[Any]] = {f.name: f for f in fields(policy)}
    given = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key not in known:
            raise unknown(f"argument of {policy.__name__}", key, known)
        given[key] = _value(known[key].type, key, value)
    return given


def _value(annotation: Any, key: str, text: str) -> Any:
    """Text as what is declared: a word, a knob, yes or no, a number, or numbers with colons between them."""
    members = [m for m in get_args(annotation) if m is not NoneType]
    if get_origin(annotation) is Literal:
        if text not in members:
            raise unknown(f"value of {key}", text, map(str, members))
        return text
    if NoneType in get_args(annotation):
        return None if text == "none" else _value(members[0], key, text)
    if get_origin(annotation) is tuple and {*members} <= {int, float, Ellipsis}:
        parts = tuple(_number(members[0], key, part) for part in text.split(":"))
        if Ellipsis not in members and len(parts) != len(members):
            raise PenstockError(
                f"'{key}' takes {len(members)} numbers with colons between them, not '{text}'."
            )
        return parts
    if annotation is str:
        return text
    if annotation is Knob:
        if text not in list(Knob):
            raise unknown(f"value of {key}", text, Knob)
        return Knob(text)
    if annotation is bool:
        return _truth(key, text)
    if annotation in (int, float):
        return _number(annotation, key, text)
    raise PenstockError(f"'{key}' cannot be given in words; make the policy in Python instead.")


def _truth(key: str, text: str) -> bool:
    if text not in ("true", "false", "1", "0"):
        raise PenstockError(f"'{key}={text}' is neither true nor false; write {key}=true.")
    return text in ("true", "1")


def _number(kind: type[Any], key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise PenstockError(f"'{key}={text}' is no number; write {key}=1.5.") from None
    if kind is int and value != int(value):
        raise PenstockError(f"'{key}={text}' is no whole number; write {key}={int(value)}.")
    return int(value) if kind is int else value
