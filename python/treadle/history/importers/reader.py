"""Reads histories in another process, which is replaced when it dies, hangs or says too much."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Self

from treadle.errors import UserError
from treadle.history.documents import profile_from_json
from treadle.history.importers.limits import LIMITS, Limits
from treadle.history.importers.outcome import BrokenHistoryError, RefusedError, Source, UnfinishedError, mapping
from treadle.history.importers.process import HEADER
from treadle.history.importers.sources import BROKEN, EXPORT, REFUSED, Found
from treadle.history.run_documents import run_from_json

_PACKAGE: Final = Path(__file__).resolve().parents[3]
_SECRETS: Final = "TREADLE_"
"""What begins so in the environment, such as the store's URL, is nothing for a process that reads hostile files."""


class HistoryReader:
    """Reads one history after another, none of which can crash, hold up or fill the process that asks."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._cpu_s: dict[int, float] = {}
        """What reading has taken so far, by the files' owner."""

    def read(self, source: Source) -> Found:
        """Read a history.

        Raises:
            BrokenHistoryError: it cannot be read; the text says why.
            RefusedError: it is not read, because of what it is or of what was read before.
            UnfinishedError: its job has not ended well.
            UserError: a library that this needs is missing.
        """
        if source.kind == REFUSED:
            raise RefusedError(source.why)
        if source.kind == BROKEN:
            raise BrokenHistoryError(source.why)
        self._check_budget(source.owner)
        process = self._process or self._start()
        request = {"kind": source.kind, "name": source.name, "path": os.fsdecode(source.path)}
        began_s = time.monotonic()
        spent_s = 0.0
        try:
            limit = self._limits.export_bytes if source.kind == EXPORT else self._limits.answer_bytes
            found, end = self._exchange(process, json.dumps(request).encode() + b"\n", limit)
            spent_s = float(end.get("cpu_s", 0.0))
        except BrokenHistoryError:
            spent_s = min(time.monotonic() - began_s, self._limits.cpu_s)
            self.close()
            raise
        finally:
            self._cpu_s[source.owner] = self._cpu_s.get(source.owner, 0.0) + spent_s
        if not end.get("again"):
            self.close()
        _raise_if_failed(mapping(end.get("end")))
        return found

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):  # a request that nobody took is still in the buffer
                    if stream is not None:
                        stream.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_budget(self, owner: int) -> None:
        if sum(self._cpu_s.values()) > self._limits.all_cpu_s:
            raise RefusedError(
                f"not read: all histories together took {self._limits.all_cpu_s:.0f} s of CPU time; "
                "import the rest by itself"
            )
        if self._cpu_s.get(owner, 0.0) > self._limits.owner_cpu_s:
            raise RefusedError(
                f"not read: the histories of its owner took {self._limits.owner_cpu_s:.0f} s of CPU time; "
                "import the rest by itself"
            )

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SECRETS)}
        environment["PYTHONPATH"] = str(_PACKAGE)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            # -P: nothing is imported from the folder in which the command was given
            [
                sys.executable,
                "-P",
                "-m",
                "treadle.history.importers.process",
                str(self._limits.memory_mb),
                str(self._limits.cpu_s),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            bufsize=0,
        )
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], request: bytes, limit: int) -> tuple[Found, dict[str, Any]]:
        assert process.stdin is not None
        found = Found()
        left = limit
        deadline_s = time.monotonic() + self._limits.wall_s
        try:
            process.stdin.write(request)
        except BrokenPipeError:
            raise BrokenHistoryError(self._obituary(process)) from None
        while True:
            (length,) = HEADER.unpack(self._receive(process, HEADER.size, deadline_s))
            left -= length
            if left < 0:
                raise BrokenHistoryError(f"what is in it is more than {limit} bytes")
            try:
                part = json.loads(self._receive(process, length, deadline_s))
                if "end" in part:
                    end = mapping(part["end"])
                    found.owners = {int(owner): str(name) for owner, name in end.get("owners", ())}
                    found.open_to_all = str(end.get("open_to_all", ""))
                    return found, part
                _take(found, part)
            except (ValueError, TypeError, RecursionError) as error:
                raise BrokenHistoryError(f"what was read of it makes no sense: {error}") from error

    def _receive(self, process: subprocess.Popen[bytes], count: int, deadline_s: float) -> bytes:
        assert process.stdout is not None
        content = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while len(content) < count:
                if not selector.select(max(0.0, deadline_s - time.monotonic())):
                    raise BrokenHistoryError(f"reading it took longer than {self._limits.wall_s:.0f} s")
                part = os.read(process.stdout.fileno(), min(count - len(content), 1 << 20))
                if not part:
                    raise BrokenHistoryError(self._obituary(process))
                content += part
        return bytes(content)

    def _obituary(self, process: subprocess.Popen[bytes]) -> str:
        """Return why the process is dead."""
        status = process.wait()
        if status == -signal.SIGXCPU:
            return f"reading it takes more than {self._limits.cpu_s} s of CPU time"
        if status < 0:
            return f"the process that read it was ended by {signal.Signals(-status).name}"
        last = b""
        if self._errors is not None:
            self._errors.seek(0)
            last = self._errors.read()[-1000:].strip().rpartition(b"\n")[2]
        return f"the process that read it ended with status {status}: {last.decode('utf-8', 'replace')[:500]}"


def _take(found: Found, part: dict[str, Any]) -> None:
    if "run" in part:
        found.runs.append(run_from_json(part["run"]))
    elif "profile" in part:
        found.profiles.append(profile_from_json(part["profile"]))
    else:
        found.left_out.append(str(part["left_out"]))


def _raise_if_failed(end: Any) -> None:
    if "broken" in end:
        raise BrokenHistoryError(str(end["broken"]))
    if "unfinished" in end:
        raise UnfinishedError(str(end["unfinished"]))
    if "missing" in end:
        raise UserError(str(end["missing"]))
