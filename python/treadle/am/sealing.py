"""Bodies of requests and answers, encrypted with AES-256-GCM under keys that one connection alone has.

The key of a direction comes from the attempt's key, the listener's challenge and the request's nonce; it seals one
body, so that GCM's own nonce may be constant. Needs the package `cryptography` (the extra `encrypt`).
"""

from __future__ import annotations

import hmac
from enum import Enum
from importlib.util import find_spec
from typing import Final

from treadle.am.bodies import MessageError
from treadle.errors import UserError, install_extra

TAG_BYTES: Final = 16
"""A sealed body is longer than what it holds by so much."""

_GCM_NONCE: Final = bytes(12)


class Direction(Enum):
    """Whose body it is."""

    REQUEST = b"treadle-plans-2 request"
    ANSWER = b"treadle-plans-2 answer"


def can_seal() -> bool:
    """Return whether the package for it is there."""
    return find_spec("cryptography") is not None


def check_sealing() -> None:
    """Check that bodies can be sealed here.

    Raises:
        UserError: the package for it is missing.
    """
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"listener.encrypt: 'cryptography' is missing; {install_extra('encrypt')}, or set encrypt: false"
        ) from error


def seal(key: bytes, direction: Direction, said: bytes, nonce: bytes, body: bytes) -> bytes:
    """Return a body encrypted, for the request with ``nonce`` that follows the challenge ``said``."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed: bytes = AESGCM(_key(key, direction, said, nonce)).encrypt(_GCM_NONCE, body, None)
    return sealed


def unseal(key: bytes, direction: Direction, said: bytes, nonce: bytes, sealed: bytes) -> bytes:
    """Return what a sealed body holds.

    Raises:
        MessageError: it was sealed with another key, or changed.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        body: bytes = AESGCM(_key(key, direction, said, nonce)).decrypt(_GCM_NONCE, sealed, None)
    except InvalidTag as error:
        raise MessageError("a sealed body that cannot be opened") from error
    return body


def _key(key: bytes, direction: Direction, said: bytes, nonce: bytes) -> bytes:
    return hmac.digest(key, direction.value + said + nonce, "sha256")
