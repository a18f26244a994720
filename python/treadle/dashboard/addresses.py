"""Under which addresses browsers find the dashboard: what Host and Origin of a request may be."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from treadle.errors import UserError

_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Addresses:
    """What a request may name."""

    hosts: frozenset[str]
    """Of a Host header, in small letters."""
    origins: frozenset[str]
    secure_hosts: frozenset[str]
    """Of these hosts browsers come over https alone."""

    def knows_host(self, host: str) -> bool:
        """Say whether a Host header is one of ours; any other may be a name that an attacker's DNS leads here."""
        return host.lower() in self.hosts

    def knows_origin(self, origin: str) -> bool:
        """Say whether an Origin header is one of ours."""
        return origin.lower() in self.origins

    def secure(self, host: str) -> bool:
        """Say whether a cookie for a Host must go over https alone."""
        return host.lower() in self.secure_hosts


def addresses(bind: str, port: int, urls: Iterable[str]) -> Addresses:
    """Return the addresses of a dashboard: loopback's with its port, and those that were given.

    Args:
        bind: the IP address at which it listens
        port: the port at which it listens
        urls: addresses as a browser names them, such as that of a proxy

    Raises:
        UserError: an address is none, or others than this host may come and no address is given.
    """
    given = [_split(url) for url in urls]
    try:
        loopback = ipaddress.ip_address(bind.strip("[]")).is_loopback
    except ValueError as error:
        raise UserError(f"--bind {bind}: write an IP address; 127.0.0.1 is this host alone") from error
    if not loopback and not given:
        raise UserError(
            f"--bind {bind}: others than this host may come; say under which address with --url https://NAME (and let "
            "a proxy speak https: docs/dashboard.md)"
        )
    own = {f"{host}:{port}" for host in _LOOPBACK}
    if port == _PORTS["http"]:
        own |= set(_LOOPBACK)
    hosts, origins, secure = set(own), {f"http://{host}" for host in own}, set()
    for scheme, name, named_port in given:
        with_port = f"{name}:{named_port}"
        names = {with_port, name} if named_port == _PORTS[scheme] else {with_port}
        hosts |= names
        origins |= {f"{scheme}://{each}" for each in names}
        if scheme == "https":
            secure |= names
    return Addresses(frozenset(hosts), frozenset(origins), frozenset(secure))


def _split(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
        valid = parts.scheme in _PORTS and bool(parts.hostname) and not parts.username and parts.path in ("", "/")
        if not valid or parts.query or parts.fragment or not port:
            raise ValueError
    except ValueError as error:
        raise UserError(f"--url {url}: write it as https://NAME or http://NAME:PORT, without a path") from error
    host = str(parts.hostname).lower()
    return parts.scheme, f"[{host}]" if ":" in host else host, port
