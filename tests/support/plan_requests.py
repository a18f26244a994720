"""Requests to the plan listener, as an application master makes them."""

from __future__ import annotations

import hashlib

from treadle.am.protocol import REQUEST, SEALED, VERSION, Attempt, Direction, Kind, code, seal


def request(
    key: bytes,
    said: bytes,
    kind: Kind,
    attempt: Attempt,
    number: int,
    body: bytes,
    nonce: bytes,
    *,
    sealed: bool = False,
) -> bytes:
    """Return a request, as an application master makes it.

    Args:
        key: of the attempt
        said: the challenge that it follows
        kind: what it is for
        attempt: whose it is
        number: of the key
        body: what is asked or reported
        nonce: `NONCE_BYTES` random bytes, for this request alone
        sealed: whether the body is encrypted
    """
    if sealed:
        body = seal(key, Direction.REQUEST, said, nonce, body)
    digest, flags = hashlib.sha256(body).digest(), SEALED if sealed else 0
    header = REQUEST.pack(b"TRDQ", VERSION, kind, flags, len(body), *attempt, number, digest, nonce)
    return header + code(key, said, header) + body
