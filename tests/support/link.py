"""The ResourceManager's end of a connection to a sidecar, for tests."""

from __future__ import annotations

import secrets
import socket
from base64 import b64decode, b64encode
from typing import BinaryIO

from treadle.live.handshake import (
    CODE_BYTES,
    NONCE_BYTES,
    OPENING,
    Address,
    Limits,
    check_opening,
    opening,
    resource_manager_proof,
    sidecar_code,
)

LIMITS = Limits(1 << 20, 1 << 20)


def shake_hands(
    connected: socket.socket,
    stream: BinaryIO,
    secret: bytes,
    limits: Limits = LIMITS,
    dialled: Address | None = None,
) -> None:
    """Prove the secret to a sidecar and have it proved.

    Args:
        connected: a new connection
        stream: what comes on it
        secret: of 32 bytes
        limits: what is allowed
        dialled: the address in the codes; that of the connection if not given
    """
    where = dialled or Address(*connected.getpeername()[:2])
    hello = opening() + secrets.token_bytes(NONCE_BYTES)
    connected.sendall(hello)
    answer, code = stream.read(OPENING.size + NONCE_BYTES), stream.read(CODE_BYTES)
    check_opening(answer[: OPENING.size])
    assert code == sidecar_code(secret, where, hello, answer)
    connected.sendall(resource_manager_proof(secret, where, hello, answer, limits))


def call(frame: bytes) -> bytes:
    """Return the call that carries a frame."""
    return b"c\nt\ndecide\nj" + b64encode(frame) + b"\ne\n"


def decide(port: int, secret: str, frame: bytes, limits: Limits = LIMITS) -> bytes:
    """Return a sidecar's answer to one frame."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connected, connected.makefile("rb") as stream:
        shake_hands(connected, stream, bytes.fromhex(secret), limits)
        connected.sendall(call(frame))
        return b64decode(stream.readline()[3:])
