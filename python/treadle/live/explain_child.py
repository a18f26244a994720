"""Why an application waits, looked for in a process of its own: what it computes takes nothing from decisions.

Started by the sidecar (`treadle.live.explain_server`), which shows it a copy of the model in memory that both share.
It gives way to others on the processor, has a bound of memory, and ends when the sidecar does.
"""

from __future__ import annotations

import json
import logging
import mmap
import pickle
import resource
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, Final

from treadle.compiled.pair_map import PairMap
from treadle.errors import printable
from treadle.explain.application import explain_application
from treadle.explain.situation import Situation
from treadle.log_lines import log_to_stderr
from treadle.process_limits import LISTENER, give_way
from treadle.yarn.codes import several

_log = logging.getLogger(__name__)

PRIVATE_BYTES_MAX: Final = 4 << 30
"""Of memory of its own, beside what the sidecar shows; 20,000 nodes with 100,000 asks take a tenth of it."""

ALIGNED: Final = 64
"""Arrays begin at a multiple of so many bytes."""

READY: Final = b'{"ready": true}\n'


def places(lengths: Sequence[int]) -> Iterator[int]:
    """Yield where arrays of so many bytes begin that lie one after the other, and last where the next one would."""
    at = 0
    for length in lengths:
        yield at
        at += -(-length // ALIGNED) * ALIGNED
    yield at


def unknown_application(application: str) -> str:
    """Return what is answered about an application that the engine does not know, or no more."""
    return f"the engine has no application {application} that runs; give the whole id, or its last number"


def answer_to(situation: Situation, application: str, ask: int | None, node: str) -> dict[str, Any]:
    """Return why an application waits, for JSON; else ``error``, and ``unknown`` if the engine knows no such one.

    Args:
        situation: the model, which is only read
        application: YARN's id, or the end of it
        ask: explain this request key alone
        node: say of each ask why it is not on the node of this name
    """
    found = situation.find(application)
    if not found:
        return {"error": unknown_application(application), "unknown": True}
    if len(found) > 1:
        return {"error": several(application, [situation.application_id(each) for each in found])}
    return explain_application(situation, found[0], ask, node).plain()


def failed(error: Exception) -> str:
    """Log why a question was not answered, and return it for whoever asked."""
    _log.error("a question was not answered", exc_info=error)
    return f"the question failed: {printable(f'{type(error).__name__}: {error}')}; the sidecar's log has more"


class Child:
    """Answers the questions of one sidecar."""

    def __init__(self, memory: int) -> None:
        """Begin.

        Args:
            memory: descriptor of the memory in which the sidecar puts arrays
        """
        self._memory = memory
        self._mapped: mmap.mmap | None = None
        self._texts: list[str] = []

    def answer(self, header: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
        """Answer one question, whose values follow its header."""
        values = stream.read(header["values"])
        new = stream.read(header["texts"])
        if header["afresh"]:
            self._texts = []
        self._texts += pickle.loads(new)  # noqa: S301 - of the process that started this one
        if self._mapped is None or len(self._mapped) != header["size"]:
            self._mapped = mmap.mmap(self._memory, header["size"])
        shown = memoryview(self._mapped)
        starts = places(header["arrays"])
        arrays = [shown[at : at + length] for at, length in zip(starts, header["arrays"], strict=False)]
        situation = replace(pickle.loads(values, buffers=arrays), texts=self._texts)  # noqa: S301 - as above
        try:
            return answer_to(situation, *header["question"])
        except Exception as error:  # one question that fails is no concern of the next
            return {"error": failed(error)}


def main() -> None:
    """Answer on standard input, a socket, until it is closed. The argument is the memory's descriptor."""
    log_to_stderr()
    logging.getLogger("numba").setLevel(logging.WARNING)
    give_way(LISTENER)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (PRIVATE_BYTES_MAX, PRIVATE_BYTES_MAX))
    PairMap().find(0, 0)  # reads what is compiled
    child = Child(int(sys.argv[1]))
    connected = socket.socket(fileno=0)
    stream = connected.makefile("rb")
    try:
        connected.sendall(READY)
        while line := stream.readline():
            connected.sendall(json.dumps(child.answer(json.loads(line), stream)).encode() + b"\n")
    except (BrokenPipeError, ConnectionResetError):
        _log.info("the sidecar is gone")


if __name__ == "__main__":
    main()
