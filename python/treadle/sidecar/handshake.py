"""How the ResourceManager and its sidecar meet: JSON lines through pipes, or a file that only their user can read."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import IO, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from treadle.errors import UserError

GREETING_MAX_BYTES: Final = 4096
TOKEN_BYTES: Final = 32

ByteCount = Annotated[int, Field(ge=1 << 16, le=1 << 30)]


class Greeting(BaseModel):
    """The first and only line that a ResourceManager writes to the standard input of its sidecar."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    token: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    reply_max_bytes: ByteCount = 8 << 20
    frame_max_bytes: ByteCount = 8 << 20


class HandshakeError(UserError):
    """The two cannot find each other; the text is one line that says why."""


def read_greeting(stdin: IO[bytes]) -> Greeting:
    """Wait for the ResourceManager's line.

    Raises:
        HandshakeError: it is not what the shim writes. The token is not repeated.
    """
    line = stdin.readline(GREETING_MAX_BYTES)
    if not line.endswith(b"\n"):
        raise HandshakeError("--managed is for the ResourceManager: it writes a line of JSON to the standard input")
    try:
        return Greeting.model_validate(json.loads(line))
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


def new_token() -> str:
    """Return 256 random bits in hexadecimal."""
    return secrets.token_hex(TOKEN_BYTES)


class ConnectionFile:
    """The file through which a ResourceManager finds a sidecar that it did not start; mode 0600, written atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = b""

    def write(self, port: int, token: str) -> None:
        """Write the file.

        Raises:
            HandshakeError: it cannot be written.
        """
        content = {"host": "127.0.0.1", "port": port, "token": token, "pid": os.getpid()}
        self._content = json.dumps(content).encode() + b"\n"
        try:
            # Made with mode 0600 from the start, then moved into place.
            descriptor, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
            temporary = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(self._content)
                temporary.replace(self._path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise HandshakeError(
                f"--connection-file {self._path}: {error.strerror}; name a file in a folder that you may write to"
            ) from error

    def remove(self) -> None:
        """Remove the file, unless another sidecar has written its own since."""
        try:
            if self._path.read_bytes() == self._content:
                self._path.unlink()
        except OSError:
            return
