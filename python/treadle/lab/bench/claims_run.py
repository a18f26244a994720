"""How long the engine decides while hostile application masters send all they can, and while none does.

One cluster, one engine, one plan listener; slices with and without hostile AMs in turn, so that whatever else the
machine does falls on both alike.
"""

from __future__ import annotations

import multiprocessing
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import psutil

from treadle import events
from treadle.am.keys import Attempt
from treadle.config.settings import Listener, Settings
from treadle.engine import Engine
from treadle.errors import UserError
from treadle.events import Event
from treadle.lab.bench.engine_load import Load, SteadyState
from treadle.lab.bench.hostile import attack
from treadle.live.plan_link import PlanLink
from treadle.live.plan_source import PlanEventSource
from treadle.wire.frames import Frame, FrameHeader
from treadle.wire.schema import FrameFlag

LOAD: Final = Load(nodes=2_000, rows=4_000, leaves=20, batch=400, arrivals=0)
TICK_S: Final = 0.02
"""A decide begins so often, if the one before has ended."""

SETTLE_S: Final = 1.0
"""Time at the start of each slice in which nothing counts."""

WARM_TICKS: Final = 100


@dataclass(frozen=True, slots=True)
class Side:
    """What was measured with hostile AMs, or without."""

    decides: int
    p50_ms: float
    p99_ms: float
    p50_cpu_ms: float
    """By the CPU time of the thread that decides, as the next one."""
    p99_cpu_ms: float


@dataclass(frozen=True, slots=True)
class ClaimsResult:
    """What hostile AMs cost decisions."""

    masters: int
    users: int
    pairs: int
    quiet: Side
    hostile: Side
    p50_ratio: float
    """With hostile AMs over without, as the next ones."""
    p99_ratio: float
    p99_cpu_ratio: float
    p99_ratio_of_pairs: float
    """The median over the pairs of slices."""
    requests: dict[str, int]
    """Connections of the hostile AMs, by outcome."""
    told: int
    """Request keys that the engine received."""
    listener_mb: float
    """Resident memory of the listener's process at the end."""
    listener_cpu: float
    """Processors that it used while there were hostile masters."""


class _Decider:
    """The thread that decides, without a ResourceManager: what a frame says is applied, and what claims say."""

    def __init__(self, settings: Settings, link: PlanLink, masters: int, users: int) -> None:
        self.users = users
        self.state = SteadyState(LOAD)
        self.engine = Engine(settings)
        self.source = PlanEventSource(link)
        self.keys = {Attempt(0, at, 0): secrets.token_bytes(32) for at in range(masters)}
        self.told = 0
        self._tell(self._with_masters(self.state.snapshot()), FrameFlag.SNAPSHOT)

    def _with_masters(self, snapshot: list[Event]) -> list[Event]:
        """Return a snapshot in which the first applications are Tez's."""
        found: list[Event] = []
        many = len(self.keys)
        tez = 0
        for event in snapshot:
            if isinstance(event, events.Names):
                tez = len(event.texts)
                found.append(events.Names((*event.texts, "TEZ", *(f"mallory {at}" for at in range(many)))))
            elif isinstance(event, events.Applications):
                types, users = event.type_name.copy(), event.user_name.copy()
                types[:many], users[:many] = tez, tez + 1 + np.arange(many) % self.users
                found.append(replace(event, type_name=types, user_name=users))
            else:
                found.append(event)
        words = np.array([np.frombuffer(key, "<i8") for key in self.keys.values()], np.int64).reshape(-1, 4)
        at = np.arange(many, dtype=np.int32)
        columns: dict[str, Any] = {f"word{column}": np.ascontiguousarray(words[:, column]) for column in range(4)}
        return [*found, events.filled(events.AttemptKeys, many, application=at, number=1, **columns)]

    def _tell(self, found: list[Event], flags: int) -> None:
        self.engine.apply([event for event in found if not isinstance(event, events.AttemptKeys)])
        header = FrameHeader(flags, 1, self.state.sequence, self.state.now_ms, 0, LOAD.batch, 2)
        hints = self.source.collect(Frame(header, found))
        if hints:
            self.engine.apply(hints)
            self.told += len(getattr(hints[0], "key", ()))

    def decide(self) -> tuple[float, float]:
        """Return how long a decide took with all that comes before it, in milliseconds of wall and CPU time."""
        frame = self.state.tick()
        began_s, cpu_s = time.perf_counter(), time.thread_time()
        self._tell(frame, 0)
        made = self.engine.decide(self.state.now_ms, LOAD.batch, sequence=self.state.sequence)
        took = 1e3 * (time.perf_counter() - began_s), 1e3 * (time.thread_time() - cpu_s)
        self.state.commit(made)
        return took

    def slice(self, seconds: float) -> list[tuple[float, float]]:
        """Decide for so long after `SETTLE_S`; return how long each took."""
        found = []
        began_s = next_s = time.perf_counter()
        while (now_s := time.perf_counter()) < began_s + SETTLE_S + seconds:
            took = self.decide()
            if now_s >= began_s + SETTLE_S:
                found.append(took)
            next_s = max(next_s + TICK_S, time.perf_counter())
            time.sleep(max(next_s - time.perf_counter(), 0.0))
        return found


def run_claims(
    settings: Settings,
    listener: Listener,
    masters: int,
    users: int,
    pairs: int,
    seconds: float,
    progress: Callable[[str], None],
) -> ClaimsResult:
    """Measure.

    Args:
        settings: the policy, and how to plan
        listener: where the plan listener listens
        masters: how many are hostile
        users: how many users they have
        pairs: how often a slice without and one with hostile AMs are measured
        seconds: how long a slice is
        progress: called with the step that begins

    Raises:
        UserError: the listener cannot listen.
    """
    link = PlanLink(replace(settings, listener=listener), lambda _: None)
    link.start()
    try:
        if not link.listening:
            raise UserError(link.summary())
        decider = _Decider(settings, link, masters, users)
        with _hostile((listener.address, link.port), list(decider.keys.items())) as pipe:
            for _ in range(WARM_TICKS):
                decider.decide()
            process = _listener_process()
            quiet, hostile, requests, cpu_s = [], [], dict[str, int](), 0.0
            for pair in range(pairs):
                progress(f"pair {pair + 1} of {pairs}")
                quiet.append(decider.slice(seconds))
                pipe.send(True)
                before_s = sum(process.cpu_times()[:2])
                hostile.append(decider.slice(seconds))
                cpu_s += sum(process.cpu_times()[:2]) - before_s
                pipe.send(False)
                for name, count in pipe.recv()[0].items():
                    requests[name] = requests.get(name, 0) + count
            memory_mb = process.memory_info().rss / 2**20
    finally:
        link.close()
    check_answered(requests)
    of_pairs = [_p99(there) / _p99(before) for before, there in zip(quiet, hostile, strict=True)]
    one, other = _side(quiet), _side(hostile)
    return ClaimsResult(
        masters,
        users,
        pairs,
        one,
        other,
        round(other.p50_ms / one.p50_ms, 3),
        round(other.p99_ms / one.p99_ms, 3),
        round(other.p99_cpu_ms / one.p99_cpu_ms, 3),
        round(float(np.median(of_pairs)), 3),
        requests,
        decider.told,
        round(memory_mb, 1),
        round(cpu_s / (pairs * (seconds + SETTLE_S)), 2),
    )


def check_answered(requests: Mapping[str, int]) -> None:
    """Check that hostile AMs were there at all.

    Raises:
        UserError: nothing that they said was answered.
    """
    if not any(count for name, count in requests.items() if name != "no answer"):
        raise UserError("nothing was measured: the plan listener has answered no hostile master; see its log")


def report(result: ClaimsResult) -> dict[str, Any]:
    """Return the result for JSON."""
    return asdict(result)


@contextmanager
def _hostile(address: tuple[str, int], masters: list[tuple[Attempt, bytes]]) -> Iterator[Any]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=attack, args=(address, masters, there), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.kill()
        process.join()


def _listener_process() -> psutil.Process:
    return next(
        child for child in psutil.Process().children() if "treadle.live.plan_child" in " ".join(child.cmdline())
    )


def _p99(took: list[tuple[float, float]]) -> float:
    return float(np.percentile([wall for wall, _ in took], 99))


def _side(slices: list[list[tuple[float, float]]]) -> Side:
    wall, cpu = np.array([took for one in slices for took in one]).T
    figures = (float(np.percentile(of, at)) for of in (wall, cpu) for at in (50, 99))
    return Side(len(wall), *(round(figure, 3) for figure in figures))
