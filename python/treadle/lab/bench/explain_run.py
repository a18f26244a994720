"""How long it takes to say why an application waits, and how long the next frame waits for the copy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.explain.application import explain_application
from treadle.explain.situation import Situation
from treadle.lab.bench.engine_load import Load, SteadyState
from treadle.lab.bench.sls_load import BenchError

WARM_TICKS: Final = 5
LEAVES: Final = 100
SAID_EVERY: Final = 50
"""Questions in one step of the progress."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What was measured. Times are of the wall, milliseconds, unless they say CPU."""

    policy: str
    nodes: int
    asks: int
    questions: int
    copy_p50_ms: float
    """The model is copied between two frames."""
    copy_max_ms: float
    explain_p50_ms: float
    """Beside the decisions, on the copy."""
    explain_p99_ms: float
    explain_max_ms: float
    cpu_p50_ms: float
    """CPU time of a question, which other work on the machine does not lengthen as much."""
    cpu_max_ms: float
    verdicts: dict[str, int]
    """How often each cause decided an ask's verdict."""

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def measure(
    name: str, settings: Settings, nodes: int, asks: int, questions: int, say: Callable[[str], None] = lambda _: None
) -> Explained:
    """Ask about applications of a full cluster, one after the other, evenly spread.

    Raises:
        BenchError: no application asks for anything.
    """
    say(f"{name}: {nodes} nodes, {asks} asks")
    state, engine = SteadyState(Load(nodes, asks, min(LEAVES, asks))), Engine(settings)
    engine.apply(state.snapshot())
    for _ in range(WARM_TICKS):
        engine.apply(state.tick())
        state.commit(engine.decide(state.now_ms, 500, sequence=state.sequence))
    engine.apply(state.tick())
    look = Situation.of(engine)
    if look is None:
        raise BenchError("the engine has no model")
    waiting = np.unique(look.view.rows["application"][look.view.rows["count"] > 0])
    if not len(waiting):
        raise BenchError("no application asks for anything; give more --asks")
    chosen = waiting[np.linspace(0, len(waiting) - 1, questions).astype(np.int64)]
    copies, answers, cpu, why = [], [], [], Counter[str]()
    for number, application in enumerate(chosen):
        if number % SAID_EVERY == 0:
            say(f"{name}: question {number + 1} of {questions}")
        began = time.perf_counter()
        copied = look.copied()
        middle, began_cpu = time.perf_counter(), time.thread_time()
        explained = explain_application(copied, int(application))
        ended = time.perf_counter()
        cpu.append(1000 * (time.thread_time() - began_cpu))
        copies.append(1000 * (middle - began))
        answers.append(1000 * (ended - middle))
        why.update(str(ask.causes[0].why) for ask in explained.asks if ask.causes)
    return Explained(
        name,
        nodes,
        asks,
        questions,
        copy_p50_ms=_rounded(np.median(copies)),
        copy_max_ms=_rounded(max(copies)),
        explain_p50_ms=_rounded(np.median(answers)),
        explain_p99_ms=_rounded(np.percentile(answers, 99)),
        explain_max_ms=_rounded(max(answers)),
        cpu_p50_ms=_rounded(np.median(cpu)),
        cpu_max_ms=_rounded(max(cpu)),
        verdicts=dict(sorted(why.items())),
    )


def _rounded(value: Any) -> float:
    return round(float(value), 3)
