"""How the ResourceManager and its sidecar find each other and prove that they know their secret.

Three messages open each connection; none of them contains the secret. The codes cover the nonces of both ends, the
prover's role, and the dialled address and port: they cannot be replayed on another connection, another port or in the
other direction.
"""

from __future__ import annotations

import grp
import hmac
import ipaddress
import json
import os
import secrets
from pathlib import Path
from struct import Struct
from typing import IO, Annotated, Any, Final, NamedTuple

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from treadle.errors import UserError
from treadle.files import read_regular, write_whole

VERSION: Final = 1
"""Version of the handshake; both ends must have the same."""

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
    """The ResourceManager's limits, bytes."""

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
    limits_sent = _LIMITS.pack(*limits)
    return limits_sent + hmac.digest(
        secret, _RESOURCE_MANAGER + _where(address) + hello + answer + limits_sent, "sha256"
    )


def check_proof(secret: bytes, address: Address, hello: bytes, answer: bytes, proof: bytes) -> Limits:
    """Return the ResourceManager's limits.

    Raises:
        ProofError: it does not know the secret, dialled another address, or sent impossible limits.
    """
    limits = Limits(*_LIMITS.unpack_from(proof))
    expected = resource_manager_proof(secret, address, hello, answer, limits)
    if not hmac.compare_digest(expected, proof):
        raise ProofError("it does not know the secret, or has dialled another address")
    for what, limit in (("frame", limits.frame_max_bytes), ("answer", limits.reply_max_bytes)):
        if not LIMIT_MIN <= limit <= LIMIT_MAX:
            raise ProofError(f"the longest {what} is to be {limit} bytes, not {LIMIT_MIN} to {LIMIT_MAX}")
    return limits


def _where(address: Address) -> bytes:
    packed = ipaddress.ip_address(address.host).packed
    return bytes([len(packed)]) + packed + address.port.to_bytes(2, "big")


HOST: Final = "127.0.0.1"
"""The one address that a sidecar listens on."""

GREETING_MAX_BYTES: Final = 4096
CONNECTION_FILE_MAX_BYTES: Final = 1 << 16


class Greeting(BaseModel):
    """The first and only line that a ResourceManager writes to the standard input of its sidecar."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    secret: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class HandshakeError(UserError):
    """The ResourceManager and the sidecar cannot find each other; the text is one line with the reason."""


def read_greeting(stdin: IO[bytes]) -> Greeting:
    """Wait for the ResourceManager's line.

    Raises:
        HandshakeError: the line is not one that the shim writes. The message does not repeat the secret.
    """
    line = stdin.readline(GREETING_MAX_BYTES)
    if not line.endswith(b"\n"):
        raise HandshakeError("--managed is for the ResourceManager: it writes a line of JSON to the standard input")
    try:
        document = json.loads(line)
        version = document.get("handshake", 0) if isinstance(document, dict) else VERSION
        if version != VERSION:
            raise HandshakeError(
                f"the ResourceManager speaks version {version} of the handshake, this sidecar version {VERSION}: "
                "give both the same release of Treadle"
            )
        return Greeting.model_validate(document)
    except ValidationError as error:
        detail = error.errors(include_input=False)[0]
        raise HandshakeError(
            f"the line from the ResourceManager: {'.'.join(map(str, detail['loc']))}: {detail['msg']}"
        ) from None
    except ValueError:
        raise HandshakeError("the line from the ResourceManager is not JSON") from None


def say(out: IO[str], **fields: Any) -> None:
    """Write a line of JSON for the ResourceManager."""
    out.write(json.dumps(fields) + "\n")
    out.flush()


def new_secret() -> str:
    """Return 256 random bits in hexadecimal."""
    return secrets.token_hex(SECRET_BYTES)


class ConnectionFile:
    """The file through which a ResourceManager finds a sidecar that it did not start, written atomically.

    Its mode is 0600, or 0640 with a group, which lets a ResourceManager of another user read it.
    """

    def __init__(self, path: Path, group: str | None = None) -> None:
        """Name the file.

        Raises:
            HandshakeError: this host does not have the group.
        """
        self._path = path
        self._group: int | None = None
        if group is not None:
            try:
                self._group = grp.getgrnam(group).gr_gid
            except KeyError as error:
                raise HandshakeError(
                    f"--connection-group {group}: this host has no such group; name one that the ResourceManager's "
                    "user is in"
                ) from error
        self._content = b""

    def remove_stale(self) -> None:
        """Remove the file of a killed sidecar, so that no client dials its port, which another process may have now.

        The file of a running sidecar stays: it goes on until its ResourceManager reads the next file.
        """
        try:
            document = json.loads(read_regular(self._path, CONNECTION_FILE_MAX_BYTES))
            writer = document.get("pid") if isinstance(document, dict) else None
            if isinstance(writer, int) and (writer == os.getpid() or not psutil.pid_exists(writer)):
                self._path.unlink()
        except (OSError, ValueError, OverflowError, RecursionError):
            return

    def write(self, port: int, secret: str) -> None:
        """Write the file.

        Args:
            port: on which the sidecar listens already; otherwise another process could take it
            secret: shared by both ends

        Raises:
            HandshakeError: it cannot be written.
        """
        content = {"host": HOST, "port": port, "secret": secret, "handshake": VERSION, "pid": os.getpid()}
        self._content = json.dumps(content).encode() + b"\n"
        try:
            write_whole(self._path, self._content, self._for_group)  # made with mode 0600 from the start
        except OSError as error:
            raise HandshakeError(
                f"--connection-file {self._path}: {error.strerror}; name a file in a folder that you may write to"
                + ("" if self._group is None else ", and a --connection-group that you are in")
            ) from error

    def _for_group(self, file: int) -> None:
        if self._group is not None:
            os.fchown(file, -1, self._group)
            os.fchmod(file, 0o640)

    def remove(self) -> None:
        """Remove the file, unless another sidecar has written its own since."""
        try:
            if read_regular(self._path, CONNECTION_FILE_MAX_BYTES) == self._content:
                self._path.unlink()
        except OSError:
            return
