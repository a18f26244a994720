"""Reads histories in another process, which is replaced when it dies, hangs or says too much."""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any, Self

from treadle.errors import UserError
from treadle.history.documents import profile_from_json
from treadle.history.importers.limits import LIMITS, Limits
from treadle.history.importers.outcome import BrokenHistoryError, RefusedError, Source, UnfinishedError, mapping
from treadle.history.importers.owners import see_owners
from treadle.history.importers.peers import Reached, ReaderProcess, Started
from treadle.history.importers.process import HEADER
from treadle.history.importers.sources import BROKEN, EXPORT, REFUSED, Found
from treadle.history.run_documents import run_from_json


class HistoryReader:
    """Reads one history after another, none of which can crash, hold up or fill the process that asks."""

    def __init__(self, limits: Limits = LIMITS, connect: Callable[[], socket.socket] | None = None) -> None:
        """Read histories.

        Args:
            limits: how much of everything that may take
            connect: connects to where a process of another user is started that reads; it raises `UserError`. If left
                out, a process of this user is started.
        """
        self._limits = limits
        self._connect = connect
        self._process: ReaderProcess | None = None
        self._cpu_s: dict[int, float] = {}
        """What reading has taken so far, by the files' owner."""

    def read(self, source: Source) -> Found:
        """Read a history.

        Raises:
            BrokenHistoryError: it cannot be read; the text says why.
            RefusedError: it is not read, because of what it is or of what was read before.
            UnfinishedError: its job has not ended well.
            UserError: a library that this needs is missing, or nobody is there to read.
        """
        if source.kind == REFUSED:
            raise RefusedError(source.why)
        if source.kind == BROKEN:
            raise BrokenHistoryError(source.why)
        if source.kind == EXPORT and self._connect is not None:
            raise RefusedError("an export of profiles is read by a process of your own; import it without --reader")
        self._check_budget(source.owner)
        process = self._process or self._start()
        request = {"kind": source.kind, "name": source.name, "path": os.fsdecode(source.path)}
        began_s = time.monotonic()
        spent_s = 0.0
        try:
            limit = self._limits.export_bytes if source.kind == EXPORT else self._limits.answer_bytes
            found, end = self._exchange(process, source, json.dumps(request).encode() + b"\n", limit)
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
            process.end()

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

    def _start(self) -> ReaderProcess:
        self._process = Started(self._limits) if self._connect is None else Reached(self._connect())
        return self._process

    def _exchange(
        self, process: ReaderProcess, source: Source, request: bytes, limit: int
    ) -> tuple[Found, dict[str, Any]]:
        found = Found()
        left = limit
        deadline_s = time.monotonic() + self._limits.wall_s
        try:
            process.ask(request)
        except (BrokenPipeError, ConnectionResetError):
            raise BrokenHistoryError(process.obituary()) from None
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
                    see_owners(source, found)
                    return found, part
                _take(found, part, source.kind)
            except (ValueError, TypeError, RecursionError) as error:
                raise BrokenHistoryError(f"what was read of it makes no sense: {error}") from error

    def _receive(self, process: ReaderProcess, count: int, deadline_s: float) -> bytes:
        content = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process, selectors.EVENT_READ)
            while len(content) < count:
                if not selector.select(max(0.0, deadline_s - time.monotonic())):
                    raise BrokenHistoryError(f"reading it took longer than {self._limits.wall_s:.0f} s")
                try:
                    part = os.read(process.fileno(), min(count - len(content), 1 << 20))
                except ConnectionResetError:
                    part = b""
                if not part:
                    raise BrokenHistoryError(process.obituary())
                content += part
        return bytes(content)


def _take(found: Found, part: dict[str, Any], kind: str) -> None:
    if "run" in part:
        found.runs.append(run_from_json(part["run"]))
    elif "profile" in part:
        if kind != EXPORT:
            raise ValueError("a profile in what is no export")
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
