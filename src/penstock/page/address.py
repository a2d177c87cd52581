"""Addresses that a page or an endpoint is served at."""

import ipaddress
import socket

from penstock.core.errors import PenstockError


def parse_address(text: str, what: str = "a page") -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, of ``PORT`` alone on loopback, or of a HOST in brackets.

    >>> parse_address("127.0.0.1:8765"), parse_address("8765"), parse_address("[::1]:0")
    (('127.0.0.1', 8765), ('127.0.0.1', 8765), ('::1', 0))
    """
    host, colon, port = text.strip().rpartition(":")
    host = host.strip("[]") if colon else "127.0.0.1"
    if not host or not port.isdigit() or int(port) > 65_535:
        raise PenstockError(f"'{text}' is no address for {what}; write it like 127.0.0.1:8765.")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can come in by that host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int, what: str = "The page") -> socket.socket:
    """A socket that listens there; port 0 takes a free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise PenstockError(
            f"{what} cannot be served on {host}:{port} ({error}); choose another port, or 0 for a free one."
        ) from None
    made.setblocking(False)
    return made
