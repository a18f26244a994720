"""What questions cost decisions: the same steady state with and without them, in turn."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar

import numpy as np

from treadle import events
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.explain.situation import Situation
from treadle.lab.bench.engine_load import Load, SteadyState
from treadle.lab.bench.explain_run import LEAVES
from treadle.lab.bench.sls_load import BenchError
from treadle.live.explain_child import unknown_application
from treadle.live.explain_door import shown
from treadle.live.explain_process import START_S, CannotStartError, ExplainProcess, Question
from treadle.live.process import loading
from treadle.live.session import LOOK_AFTER_S
from treadle.policy.failed import insist

T = TypeVar("T")

WARM_TICKS: Final = 40
ENDED_MAX: Final = 20
"""So many applications may end, one after the other, between the choice of one and the look at the model."""

BATCH: Final = 500
"""Proposals of an answer at most."""


@dataclass(frozen=True, slots=True)
class Half:
    """A row of decisions, with or without questions. Milliseconds of the wall, from when the frame was due."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    late: int
    """Frames that were due before the last one was answered."""
    questions: int


@dataclass(frozen=True, slots=True)
class Beside:
    """What was measured."""

    policy: str
    nodes: int
    asks: int
    tick_ms: int
    question_every_ms: int
    decides: int
    """Of each half."""
    without: tuple[Half, ...]
    asked: tuple[Half, ...]
    """Of each pair that half in which questions were asked."""

    def p99_ratios(self) -> list[float]:
        """Return the p99 with questions over that without, a pair each."""
        return [one.p99_ms / other.p99_ms for one, other in zip(self.asked, self.without, strict=True)]

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self) | {"p99_ratios": [round(ratio, 4) for ratio in self.p99_ratios()]}


@dataclass(frozen=True, slots=True)
class Pace:
    """How frames and questions come."""

    tick_ms: int
    question_every_ms: int
    decides: int
    pairs: int


def measure(
    name: str, settings: Settings, nodes: int, asks: int, pace: Pace, say: Callable[[str], None] = lambda _: None
) -> Beside:
    """Let frames come evenly, in pairs of halves: in one of each pair questions are asked, every other pair first.

    Raises:
        BenchError: a question could not be answered.
        PolicyFailedError: a part of the policy failed.
    """
    say(f"{name}: {nodes} nodes, {asks} asks")
    process = None
    try:
        with loading():
            cluster = _Cluster(settings, nodes, asks)
            for _ in range(WARM_TICKS):
                cluster.decide(cluster.frame())
        process = ExplainProcess(cluster.look)
        process.start()
        process.wait_ready(START_S)  # as that of a sidecar is
        _ask(cluster, process, np.random.default_rng(0))
        halves: dict[bool, list[Half]] = {False: [], True: []}
        for pair in range(pace.pairs):
            for questions in (False, True) if pair % 2 == 0 else (True, False):
                say(f"{name}: pair {pair + 1} of {pace.pairs}, {'with' if questions else 'without'} questions")
                halves[questions].append(_half(cluster, process if questions else None, pace, pair))
    except CannotStartError as error:
        raise BenchError(f"no question can be asked: {error}") from error
    finally:
        gc.unfreeze()  # what `loading` keeps from the collector for good, as in a sidecar
        if process is not None:
            process.close()
    return Beside(
        name,
        nodes,
        asks,
        pace.tick_ms,
        pace.question_every_ms,
        pace.decides,
        without=tuple(halves[False]),
        asked=tuple(halves[True]),
    )


class _Cluster:
    """A ResourceManager in a steady state, and an engine that takes turns with whoever looks at it, as in a session."""

    def __init__(self, settings: Settings, nodes: int, asks: int) -> None:
        self._state, self._engine = SteadyState(Load(nodes, asks, min(LEAVES, asks))), Engine(settings)
        self._turn, self._answered = Lock(), Event()
        self._engine.apply(self._state.snapshot())

    def frame(self) -> list[events.Event]:
        """Return what the next frame has."""
        return self._state.tick()

    def decide(self, frame: list[events.Event]) -> float:
        """Return when a frame was answered; commit the answer."""
        state, engine = self._state, self._engine
        with self._turn:
            engine.apply(frame)
            made = engine.decide(state.now_ms, BATCH, sequence=state.sequence)
            engine.diagnostics()
        answered = time.perf_counter()
        self._answered.set()
        insist(engine.failure, f"in frame {state.sequence}")
        state.commit(made)
        return answered

    def look(self, action: Callable[[Situation], T]) -> T | None:
        """Show the model to an action between two frames."""
        self._answered.clear()
        self._answered.wait(LOOK_AFTER_S)
        with self._turn:
            found: T | None = shown(self._engine, action)
            return found


def _half(cluster: _Cluster, process: ExplainProcess | None, pace: Pace, seed: int) -> Half:
    taken, late = [], 0
    asking: AbstractContextManager[list[bytes]] = nullcontext([])
    if process is not None:
        asking = _asked(cluster, process, pace.question_every_ms / 1000, seed)
    with asking as answers:
        due = time.perf_counter()
        for _ in range(pace.decides):
            frame = cluster.frame()
            due += pace.tick_ms / 1000
            left = due - time.perf_counter()
            if left > 0:
                time.sleep(left)  # the sidecar's thread waits so for a frame, and then for Python's lock
            else:
                late, due = late + 1, due - left
            taken.append(1000 * (cluster.decide(frame) - due))
    p50, p99, most = np.percentile(taken, (50, 99, 100)).round(3).tolist()
    return Half(p50, p99, most, late, len(answers))


def _ask(cluster: _Cluster, process: ExplainProcess, draw: np.random.Generator) -> bytes:
    """Ask about an application that waits, any of them; return the answer.

    Raises:
        BenchError: there is none.
    """

    def waiting(situation: Situation) -> str:
        rows = situation.view.rows
        return situation.application_id(int(draw.choice(rows["application"][rows["count"] > 0])))

    for _ in range(ENDED_MAX):
        application = cluster.look(waiting) or ""
        answer = process.answer(Question(application))
        said = json.loads(answer)
        if said.get("error") == unknown_application(application):
            continue  # it has ended since it was chosen
        if "error" in said or "note" in said:
            raise BenchError(f"a question was not answered: {said.get('error') or said['note']}")
        return answer
    raise BenchError(f"{ENDED_MAX} applications in a row ended before their question was answered")


@contextmanager
def _asked(cluster: _Cluster, process: ExplainProcess, every_s: float, seed: int) -> Iterator[list[bytes]]:
    """Ask about one application after the other on a thread beside, as a sidecar's door does."""
    ended, draw, answers, failed = Event(), np.random.default_rng(seed), list[bytes](), list[Exception]()

    def ask() -> None:
        try:
            # not in step with the frames
            while not ended.wait(draw.uniform(0.5, 1.5) * every_s):
                answers.append(_ask(cluster, process, draw))
        except Exception as error:  # reported where it can be seen
            failed.append(error)

    asker = Thread(target=ask, name="explain")
    asker.start()
    try:
        yield answers
    finally:
        ended.set()
        asker.join()
    if failed:
        raise BenchError(f"a question was not answered: {failed[0]}") from failed[0]
