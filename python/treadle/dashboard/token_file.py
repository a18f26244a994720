"""The token that lets somebody in, in a file of mode 0600, and the cookies that are made of it."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from treadle.errors import UserError

COOKIE: Final = "treadle_dashboard"
COOKIE_LIFE_S: Final = 12 * 3600

_BYTES_MIN: Final = 16
_BYTES_MAX: Final = 512


def read_or_make(path: Path) -> str:
    """Return the token of a file; where there is none yet, one is made.

    Raises:
        UserError: the file is a link, another user's, open to others, too short to be a secret, or cannot be made.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name another file with --token-file") from error
    with os.fdopen(descriptor, "w") as stream:
        token = secrets.token_urlsafe(32)
        stream.write(f"{token}\n")
    return token


def _read(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; the token must be in a file of your own, not a link") from error
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):  # which `fdopen` does not take
        os.close(descriptor)
        raise UserError(f"{path}: it is a folder; name a file in it with --token-file")
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise UserError(f"{path}: it must be a file of the user who runs the dashboard; remove it, or chown it")
        if status.st_mode & 0o077:
            raise UserError(f"{path}: others may read or write it; chmod 600 it, and put another token in it")
        content = stream.read(_BYTES_MAX + 1)
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if len(content) > _BYTES_MAX or len(token) < _BYTES_MIN or not token.isprintable() or " " in token:
        raise UserError(
            f"{path}: it must hold one token of {_BYTES_MIN} to {_BYTES_MAX} printable characters; remove it, then "
            "the dashboard makes one"
        )
    return token


class Doorkeeper:
    """Knows the token, and the cookies that were made of it. A new token makes all old cookies worthless."""

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()
        self._key = hmac.digest(token.encode(), b"treadle dashboard cookie", "sha256")

    def accepts(self, token: str) -> bool:
        """Say whether this is the token; how long it takes reveals nothing of it."""
        return hmac.compare_digest(hashlib.sha256(token.encode()).digest(), self._digest)

    def cookie(self, at_s: float) -> str:
        """Return the value of a cookie that is good for `COOKIE_LIFE_S` from a time, seconds since 1970."""
        until = str(int(at_s) + COOKIE_LIFE_S)
        return f"{until}.{self._sign(until)}"

    def knows(self, cookie: str, at_s: float) -> bool:
        """Say whether a cookie is one of ours and still good."""
        until, _, signature = cookie.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) <= len("99999999999") and signature.isascii()):
            return False
        return hmac.compare_digest(self._sign(until), signature) and at_s < int(until)

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), "sha256").hexdigest()
