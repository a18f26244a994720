"""Application masters that send their plan listener as much as they can, a process of their own.

AMs run on other hosts. These share the processors of one host with what they attack, so they have the lowest
priority: what they use is nothing that AMs on other hosts would take from who decides.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import time
from multiprocessing.connection import Connection
from threading import Event, Thread
from typing import Final

from treadle.am.keys import Attempt
from treadle.am.protocol import (
    ANSWER,
    CHALLENGE_BYTES,
    ENDED_MAX,
    NONCE_BYTES,
    VERTICES_MAX,
    Kind,
    Status,
    request,
)
from treadle.niceness import LEAST, give_way

PAUSE_S: Final = 0.05
"""How long an AM waits after each answer; it does not go by what is allowed."""

SMALL: Final = 30
"""Vertices of every other AM's DAG: one that is planned at once."""

CONNECT_S: Final = 5.0


def dag(vertices: int = VERTICES_MAX) -> bytes:
    """Return the body of a request for the plan of a wide DAG."""
    body = [struct.pack(">iH", 1, 1), b"d", struct.pack(">i", vertices)]
    for at in range(vertices):
        parents = range(max(at - 8, 0), at)
        edges = b"".join(struct.pack(">iB", parent, 0) for parent in parents)
        name = f"vertex {at}".encode()
        body.append(struct.pack(">iH", at, len(name)) + name + struct.pack(">iii", 100, 0, len(parents)) + edges)
    return b"".join(body)


def report(turn: int, vertices: int = VERTICES_MAX, ended: int = ENDED_MAX) -> bytes:
    """Return the body of a report that says something else of every vertex each time."""
    table = b"".join(struct.pack(">iii", at, 3 * (at + 1), 100 + turn % 7) for at in range(vertices))
    rows = b"".join(
        struct.pack(">iiiBqqqq", at % vertices, at, 0, 0, 1 << 41, (turn * ended + at) * 7 % 10**8, -1, -1)
        for at in range(ended)
    )
    return struct.pack(">iBBi", 1, 0, 1, vertices) + table + struct.pack(">i", ended) + rows


def ask(address: tuple[str, int], kind: Kind, attempt: Attempt, key: bytes, body: bytes) -> Status | None:
    """Make a request; None if there was no answer."""
    try:
        with socket.create_connection(address, timeout=CONNECT_S) as connected:
            said = _read(connected, CHALLENGE_BYTES)
            connected.sendall(request(key, said, kind, attempt, 1, body, secrets.token_bytes(NONCE_BYTES)))
            return Status(_read(connected, ANSWER.size)[5])
    except (OSError, ValueError, IndexError):
        return None


def _read(connected: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length and (part := connected.recv(length - len(content))):
        content += part
    return content


def attack(address: tuple[str, int], masters: list[tuple[Attempt, bytes]], pipe: Connection) -> None:
    """Be hostile masters: begin at ``True``, pause at ``False``, end with the connection.

    Sends after each pause how many requests were made since the last, by outcome.
    """
    give_way(LEAST)
    on = Event()
    counts: dict[str, int] = {}
    reports = [report(turn) for turn in range(8)]
    plans = dag(), dag(SMALL)

    def be(attempt: Attempt, key: bytes) -> None:
        turn, plan = secrets.randbelow(8), plans[attempt.application % 2]
        while True:
            on.wait()
            turn += 1
            kind, body = (Kind.REPORT, reports[turn % 8]) if turn % 64 else (Kind.PLAN, plan)
            status = ask(address, kind, attempt, key, body)
            if status is Status.UNKNOWN:
                status = ask(address, Kind.PLAN, attempt, key, plan)
            name = "no answer" if status is None else status.name.lower()
            counts[name] = counts.get(name, 0) + 1
            time.sleep(PAUSE_S)

    for attempt, key in masters:
        Thread(target=be, args=(attempt, key), daemon=True).start()
    try:
        while True:
            if pipe.recv():
                on.set()
            else:
                on.clear()
                found, now = dict(counts), time.monotonic()
                counts.clear()
                pipe.send((found, now))
    except EOFError:
        os._exit(0)
