"""How the ResourceManager and its sidecar meet: JSON lines through pipes, or a file that only their user can read."""

from __future__ import annotations

import grp
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import IO, Annotated, Any, Final

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from treadle.errors import UserError
from treadle.live.proof import SECRET_BYTES, VERSION

HOST: Final = "127.0.0.1"
"""The one address that a sidecar listens on."""

GREETING_MAX_BYTES: Final = 4096
CONNECTION_FILE_MAX_BYTES: Final = 1 << 16


class Greeting(BaseModel):
    """The first and only line that a ResourceManager writes to the standard input of its sidecar."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    secret: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class HandshakeError(UserError):
    """The two cannot find each other; the text is one line that says why."""


def read_greeting(stdin: IO[bytes]) -> Greeting:
    """Wait for the ResourceManager's line.

    Raises:
        HandshakeError: it is not what the shim writes. The secret is not repeated.
    """
    line = stdin.readline(GREETING_MAX_BYTES)
    if not line.endswith(b"\n"):
        raise HandshakeError("--managed is for the ResourceManager: it writes a line of JSON to the standard input")
    try:
        said = json.loads(line)
        version = said.get("handshake", 0) if isinstance(said, dict) else VERSION
        if version != VERSION:
            raise HandshakeError(
                f"the ResourceManager speaks version {version} of the handshake, this sidecar version {VERSION}: "
                "give both the same release of Treadle"
            )
        return Greeting.model_validate(said)
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

    Its mode is 0600, or 0640 where a group is named: that of a ResourceManager whose user is not the sidecar's.
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
        """Remove the file of a sidecar that was killed, so that nobody dials its port, which anyone may have now.

        That of one that still runs is left to it: it goes on until its ResourceManager reads the next file.
        """
        try:
            with self._path.open("rb") as stream:
                said = json.loads(stream.read(CONNECTION_FILE_MAX_BYTES))
            writer = said.get("pid") if isinstance(said, dict) else None
            if isinstance(writer, int) and (writer == os.getpid() or not psutil.pid_exists(writer)):
                self._path.unlink()
        except (OSError, ValueError, OverflowError):
            return

    def write(self, port: int, secret: str) -> None:
        """Write the file.

        Args:
            port: on which the sidecar listens already; otherwise another process could take it
            secret: what both ends must know

        Raises:
            HandshakeError: it cannot be written.
        """
        content = {"host": HOST, "port": port, "secret": secret, "handshake": VERSION, "pid": os.getpid()}
        self._content = json.dumps(content).encode() + b"\n"
        try:
            # Made with mode 0600 from the start, then moved into place.
            descriptor, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
            temporary = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as stream:
                    if self._group is not None:
                        os.fchown(descriptor, -1, self._group)
                        os.fchmod(descriptor, 0o640)
                    stream.write(self._content)
                temporary.replace(self._path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise HandshakeError(
                f"--connection-file {self._path}: {error.strerror}; name a file in a folder that you may write to"
                + ("" if self._group is None else ", and a --connection-group that you are in")
            ) from error

    def remove(self) -> None:
        """Remove the file, unless another sidecar has written its own since."""
        try:
            if self._path.read_bytes() == self._content:
                self._path.unlink()
        except OSError:
            return
