"""Where `treadle explain` asks an engine, and the process that answers.

What it computes takes nothing from decisions: frames wait only for the copy of the model, some milliseconds for a large
cluster, into memory that both processes share. The process gives way to others on the processor, has a bound of memory,
and ends when the sidecar does. Where there can be no such process, the sidecar answers itself, on the thread of who
asks, and each answer says so.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import pickle
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from treadle.compiled.pair_map import PairMap
from treadle.engine import Engine
from treadle.errors import printable
from treadle.events import NodeState
from treadle.explain.application import explain_application
from treadle.explain.situation import Situation
from treadle.live.door import NO_QUESTION, Door, opened
from treadle.log_lines import log_to_stderr
from treadle.process_limits import LISTENER, give_way
from treadle.sidecar.observation import Observation
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
        text = f"the engine has no application {application} that runs; give the whole id, or its last number"
        return {"error": text, "unknown": True}
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


COMMAND: Final = (sys.executable, "-P", "-m", "treadle.live.explain_server")

ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
"""Libraries prepare memory for a thread on each processor, which nobody would use."""

READY_S: Final = 3.0
"""A question waits so long for a process that is being started; then the sidecar answers it itself."""

ANSWER_S: Final = 6.0
"""A question that takes longer is given up; the asker waits ten seconds."""

START_S: Final = 120.0
"""A process that is not ready by then never will be."""

AGAIN_S: Final = 600.0
"""So long after one could not be started another is tried."""

ENDS_S: Final = 1.0
"""One that says no more has so long to end with a code that says why."""

SHARED_BYTES_MAX: Final = 4 << 30
ANSWER_BYTES_MAX: Final = 16 << 20
_SPARE: Final = 8
"""There is room for this part more than the model takes, so that it may grow."""

Action = Callable[[Situation], Any]
Look = Callable[[Action], Any]
"""Shows an action the engine's situation between two frames, and returns what it returns; None before a snapshot."""


class Question(NamedTuple):
    """What is asked; as in `treadle.live.explain_server.answer_to`."""

    application: str
    ask: int | None = None
    node: str = ""


class _Shown(NamedTuple):
    """A situation whose arrays are in the shared memory."""

    values: bytes
    arrays: list[int]
    """Their lengths in bytes."""
    texts: list[str]
    texts_count: int
    """So many of the texts belong to it."""


class CannotStartError(Exception):
    """There can be no process on this host, or there is none yet."""


class GaveUpError(Exception):
    """A question has no answer."""


class ExplainProcess:
    """Answers questions in a process of its own. Not for several threads at a time."""

    def __init__(self, look: Look, command: tuple[str, ...] = COMMAND) -> None:
        """Prepare; nothing is started.

        Args:
            look: shows the engine's situation
            command: what is started, to which the descriptor of the shared memory is added
        """
        self._look, self._command = look, command
        self._popen: subprocess.Popen[bytes] | None = None
        self._connected: socket.socket | None = None
        self._received = b""
        self._ready = False
        self._began_s = 0.0
        self._memory = -1
        self._mapped: mmap.mmap | None = None
        self._sent_texts: tuple[list[str] | None, int] = None, 0
        """Of which list of texts the process has how many."""
        self._cannot, self._cannot_s = "", 0.0

    def answer(self, question: Question) -> bytes:
        """Return why an application waits, as JSON; ``error`` alone if there is no answer."""
        try:
            said = self._asked(question)
        except CannotStartError as error:
            return _encoded(self._answered_here(question, str(error)))
        except GaveUpError as error:
            return _encoded({"error": str(error)})
        return _encoded(_no_model()) if said is None else said

    def start(self) -> None:
        """Start the process, if there is none, so that it is ready when somebody asks."""
        with suppress(CannotStartError):
            self._start()

    def close(self) -> None:
        """End the process and give the memory back."""
        self._end()
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    @property
    def pid(self) -> int | None:
        """The process's id, None while there is none."""
        return None if self._popen is None else self._popen.pid

    def _asked(self, question: Question) -> bytes | None:
        self._start()
        self.wait_ready(READY_S)
        until_s = time.monotonic() + ANSWER_S
        shown = self._show()
        if shown is None:
            return None
        try:
            return self._exchange(question, shown, until_s)
        except TimeoutError as error:
            self._end()
            raise GaveUpError(
                f"no answer within {ANSWER_S:.0f} seconds: the host is too busy, or the cluster too large"
            ) from error
        except OSError as error:
            code = self._end(ENDS_S)
            raise GaveUpError(f"the process that explains ended (code {code}) before it answered; ask again") from error

    def _exchange(self, question: Question, shown: _Shown, until_s: float) -> bytes:
        assert self._connected is not None
        assert self._mapped is not None
        texts, known = self._sent_texts
        afresh = texts is not shown.texts
        new = pickle.dumps(shown.texts[0 if afresh else known : shown.texts_count])
        header = {
            "question": question,
            "values": len(shown.values),
            "texts": len(new),
            "arrays": shown.arrays,
            "size": len(self._mapped),
            "afresh": afresh,
        }
        self._connected.settimeout(max(until_s - time.monotonic(), 0.001))
        self._connected.sendall(json.dumps(header).encode() + b"\n" + shown.values + new)
        self._sent_texts = shown.texts, shown.texts_count
        return self._line(until_s)

    def _show(self) -> _Shown | None:
        """Copy the situation into the shared memory.

        Raises:
            CannotStartError: the system gives no memory.
            GaveUpError: the model is too large.
        """
        for _ in range(2):
            shown = self._look(self._copy)
            if not isinstance(shown, int):
                return None if shown is None else _Shown(*shown)
            self._make_room(shown)  # beside the decisions, which the copy keeps waiting
        raise GaveUpError("the model grows too fast to be copied; ask again")

    def _copy(self, situation: Situation) -> _Shown | int:
        """Copy a situation, or return how much room that takes."""
        buffers: list[pickle.PickleBuffer] = []
        values = pickle.dumps(replace(situation, texts=[]), protocol=5, buffer_callback=buffers.append)
        arrays = [buffer.raw() for buffer in buffers]
        lengths = [len(array) for array in arrays]
        starts = list(places(lengths))
        if self._mapped is None or starts[-1] > len(self._mapped):
            return starts[-1]
        room = np.frombuffer(self._mapped, np.uint8)
        for at, array in zip(starts, arrays, strict=False):
            room[at : at + len(array)] = array
        return _Shown(values, lengths, situation.texts, len(situation.texts))

    def _make_room(self, needed: int) -> None:
        if needed > SHARED_BYTES_MAX:
            raise GaveUpError(f"the model takes {needed >> 20} MiB, more than are copied to look for reasons")
        size = needed + needed // _SPARE
        size += -size % mmap.PAGESIZE
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None
        try:
            os.ftruncate(self._memory, size)
            os.posix_fallocate(self._memory, 0, size)  # what is not there would be noticed by a signal
            self._mapped = mmap.mmap(self._memory, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        except OSError as error:
            raise self._refuse(f"no memory to share: {error}") from error

    def _start(self) -> None:
        """Start a process if there is none.

        Raises:
            CannotStartError: it cannot be started, now or some minutes ago.
        """
        if self._popen is not None and self._popen.poll() is not None:
            code = self._end()
            _log.warning("the process that explains ended with code %s; another one is started", code)
        if self._popen is not None:
            return
        if self._cannot and time.monotonic() < self._cannot_s + AGAIN_S:
            raise CannotStartError(self._cannot)
        try:
            own, other = socket.socketpair()
        except OSError as error:
            raise self._refuse(str(error)) from error
        try:
            if self._memory < 0:
                self._memory = os.memfd_create("treadle-explain")
            self._popen = subprocess.Popen(
                (*self._command, str(self._memory)),
                stdin=other.fileno(),
                stdout=2,  # the log: standard output is the ResourceManager's
                pass_fds=(self._memory,),
                process_group=0,  # not a session: it would get as much of the processors as this one (`give_way`)
                env={**os.environ, **ONE_THREAD},
            )
        except (OSError, AttributeError) as error:
            own.close()
            raise self._refuse(str(error)) from error
        finally:
            other.close()
        self._connected, self._ready, self._received = own, False, b""
        self._began_s, self._sent_texts, self._cannot = time.monotonic(), (None, 0), ""

    def wait_ready(self, wait_s: float) -> None:
        """Wait so long until the process, which was started, is ready.

        Raises:
            CannotStartError: it is not.
        """
        if self._ready:
            return
        try:
            self._line(time.monotonic() + wait_s)
        except TimeoutError as error:
            if time.monotonic() > self._began_s + START_S:
                self._end()
                raise self._refuse(f"not ready after {START_S:.0f} seconds") from error
            raise CannotStartError("the process that explains is being started") from error
        except OSError as error:
            raise self._refuse(f"it ended with code {self._end(ENDS_S)} before it was ready") from error
        self._ready = True

    def _refuse(self, why: str) -> CannotStartError:
        self._cannot, self._cannot_s = why, time.monotonic()
        _log.warning("questions of `treadle explain` are answered by the sidecar itself: %s", why)
        return CannotStartError(why)

    def _line(self, until_s: float) -> bytes:
        """Return what the process says next.

        Raises:
            TimeoutError: it says nothing in time.
            OSError: it has ended.
            GaveUpError: it says too much, and is ended for that.
        """
        assert self._connected is not None
        while b"\n" not in self._received:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._connected.settimeout(left_s)
            part = self._connected.recv(1 << 20)
            if not part:
                raise ConnectionResetError
            self._received += part
            if len(self._received) > ANSWER_BYTES_MAX:
                self._end()
                raise GaveUpError(
                    f"the answer is longer than {ANSWER_BYTES_MAX >> 20} MiB; ask about one request key (--ask)"
                )
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _end(self, patience_s: float = 0.0) -> int | None:
        """End the process, after so long at most if it ends by itself; return its exit code, None if there was none."""
        popen, self._popen = self._popen, None
        if self._connected is not None:
            self._connected.close()
            self._connected = None
        if popen is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            return popen.wait(patience_s)
        popen.kill()
        return popen.wait()

    def _answered_here(self, question: Question, why: str) -> dict[str, Any]:
        situation = self._look(Situation.copied)
        if situation is None:
            return _no_model()
        note = f"answered by the sidecar itself, beside the decisions it has to make: {why}"
        return {**answer_to(situation, *question), "note": note}


def _encoded(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode()


def _no_model() -> dict[str, Any]:
    return {"error": "the engine has not heard of the cluster yet; is a ResourceManager connected?"}


Held = Callable[[], list[dict[str, Any]]]

HELD_MAX: Final = 1000

ONE_ENGINE: Final = "there is one engine, which has no name; leave --engine out"


class ExplainDoor(Door):
    """Says why applications wait, which nodes are held for whom, and what `observe_only` found."""

    def __init__(self, path: Path, look: Look, held: Held, observation: Observation | None = None) -> None:
        """Open the socket, as `Door` does.

        Args:
            path: where
            look: shows the engine's situation
            held: returns which nodes are held for whom
            observation: has what `observe_only` found; None: another process has it
        """
        super().__init__(path)
        self._held, self._observation, self._process = held, observation, ExplainProcess(look)

    def prepare(self) -> None:
        """Start the process that explains."""
        self._process.start()

    def ended(self) -> None:
        """End it."""
        self._process.close()

    def answer_to(self, line: bytes) -> bytes:
        """Answer a question."""
        try:
            asked = json.loads(line)
            if asked.get("engine"):
                return json.dumps({"error": ONE_ENGINE}).encode()
            if asked.get("observation") is True and self._observation is not None:
                return json.dumps(self._observation.shown()).encode()
            question = None if asked.get("held") is True else _question_in(asked)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return NO_QUESTION
        try:
            return json.dumps({"held": self._held()}).encode() if question is None else self._process.answer(question)
        except Exception as error:  # one question that fails is no concern of the next
            return json.dumps({"error": failed(error)}).encode()


def _question_in(asked: dict[str, Any]) -> Question:
    application, ask, node = str(asked["application"]), asked.get("ask"), str(asked.get("node") or "")
    return Question(application, None if ask is None else int(ask), node)


def shown(engine: Engine, action: Action) -> Any:
    """Return what an action makes of an engine's situation; None before its first snapshot."""
    situation = Situation.of(engine)
    return None if situation is None else action(situation)


def held_nodes(engine: Engine) -> list[dict[str, Any]]:
    """Return which nodes an engine keeps free for asks, for which applications, and for how much longer at most."""
    situation = Situation.of(engine)
    if situation is None:
        return []
    nodes = situation.view.nodes
    found = []
    for node in np.flatnonzero((nodes["hold_row"] >= 0) & (nodes["state"] != NodeState.GONE))[:HELD_MAX].tolist():
        application = int(situation.view.rows["application"][nodes["hold_row"][node]])
        if application >= 0:
            left_ms = max(int(nodes["hold_until_ms"][node]) - situation.now_ms, 0)
            whose = situation.application_id(application)
            found.append({"node": situation.node_name(node), "application": whose, "left_ms": left_ms})
    return found


def open_door(
    folder: Path | None, look: Look, held: Held = list, observation: Observation | None = None
) -> ExplainDoor | None:
    """Open an engine's door in its state folder."""
    return opened(folder, lambda path: ExplainDoor(path, look, held, observation))


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
