"""How the ResourceManager and its sidecar prove to each other that they know their secret (docs/wire-format.md).

Three messages open each connection; the secret is in none of them. The codes are over the nonces of both ends, the
role of who proves, and the address and port that were dialled: nobody can pass them on to another connection, another
port or the other direction.
"""

from __future__ import annotations

import hmac
import ipaddress
from struct import Struct
from typing import Final, NamedTuple

VERSION: Final = 1
"""Of the handshake; both ends must have the same."""

NONCE_BYTES: Final = 32
CODE_BYTES: Final = 32
SECRET_BYTES: Final = 32

LIMIT_MIN: Final = 1 << 16
LIMIT_MAX: Final = 1 << 30
"""Bounds of the bytes that a ResourceManager may set as its longest frame and its longest answer."""

_MAGIC: Final = b"TRDH"
OPENING: Final = Struct(">4sB3x")
_LIMITS: Final = Struct(">ii")
PROOF_BYTES: Final = _LIMITS.size + CODE_BYTES

_SIDECAR: Final = b"treadle sidecar"
_RESOURCE_MANAGER: Final = b"treadle resourcemanager"


class ProofError(Exception):
    """The other end has not proved that it knows the secret."""


class VersionError(ProofError):
    """The other end speaks another version of the handshake."""


class Address(NamedTuple):
    """Where a connection was dialled."""

    host: str
    port: int


class Limits(NamedTuple):
    """What the ResourceManager allows, bytes."""

    frame_max_bytes: int
    reply_max_bytes: int


def opening(version: int = VERSION) -> bytes:
    """Return the eight bytes that the first message of each end begins with."""
    return OPENING.pack(_MAGIC, version)


def check_opening(content: bytes) -> None:
    """Check the first eight bytes of the other end.

    Raises:
        ProofError: they are no handshake.
        VersionError: they are one of another version.
    """
    magic, version = OPENING.unpack(content)
    if magic != _MAGIC:
        raise ProofError("no handshake")
    if version != VERSION:
        raise VersionError(
            f"the other end speaks version {version} of the handshake, this one version {VERSION}: "
            "give the ResourceManager and the sidecar the same release of Treadle"
        )


def sidecar_code(secret: bytes, address: Address, hello: bytes, answer: bytes) -> bytes:
    """Return the code by which a sidecar proves itself; ``hello`` and ``answer`` are an opening and a nonce each."""
    return hmac.digest(secret, _SIDECAR + _where(address) + hello + answer, "sha256")


def resource_manager_proof(secret: bytes, address: Address, hello: bytes, answer: bytes, limits: Limits) -> bytes:
    """Return the message by which a ResourceManager proves itself and sets its limits."""
    said = _LIMITS.pack(*limits)
    return said + hmac.digest(secret, _RESOURCE_MANAGER + _where(address) + hello + answer + said, "sha256")


def check_proof(secret: bytes, address: Address, hello: bytes, answer: bytes, proof: bytes) -> Limits:
    """Return what the ResourceManager allows.

    Raises:
        ProofError: it does not know the secret, dialled elsewhere, or allows what cannot be.
    """
    limits = Limits(*_LIMITS.unpack_from(proof))
    expected = resource_manager_proof(secret, address, hello, answer, limits)
    if not hmac.compare_digest(expected, proof):
        raise ProofError("it does not know the secret, or has dialled another address")
    for name, limit in (("frame.max-bytes", limits.frame_max_bytes), ("reply.max-bytes", limits.reply_max_bytes)):
        if not LIMIT_MIN <= limit <= LIMIT_MAX:
            raise ProofError(f"yarn.scheduler.treadle.{name} is {limit}, not {LIMIT_MIN} to {LIMIT_MAX}")
    return limits


def _where(address: Address) -> bytes:
    packed = ipaddress.ip_address(address.host).packed
    return bytes([len(packed)]) + packed + address.port.to_bytes(2, "big")
