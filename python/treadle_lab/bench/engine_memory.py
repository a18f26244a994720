"""How much memory an engine takes: a process of its own, which is sent events in pieces as a sidecar is."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import fields
from multiprocessing.connection import Connection
from typing import Any, Final

from treadle import events
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings, Source
from treadle.engine import Engine
from treadle.events import Event
from treadle.memory import peak_memory_mb
from treadle_lab.bench.engine_load import Load, SteadyState
from treadle_lab.sls.load import BenchError

PIECE: Final = 65_536
"""Rows of an event that are sent at once."""

TICKS: Final = 30

LARGEST: Final = (20_000, 100_000, 1_000)
"""Nodes, rows and leaves of the goal for memory: under 500 MB."""

SPLIT: Final = (events.Containers, events.Requests, events.Applications, events.ApplicationUsage, events.Nodes)


def pieces(found: Sequence[Event]) -> Iterator[Event]:
    """Return the same events with no more than `PIECE` rows each."""
    for event in found:
        if not isinstance(event, SPLIT):
            yield event
            continue
        columns = [getattr(event, field.name) for field in fields(event)]
        for start in range(0, max(len(columns[0]), 1), PIECE):
            yield type(event)(*(column[start : start + PIECE].copy() for column in columns))


def measure_memory(settings: Settings, load: Load) -> float:
    """Return the most memory (MB) that a process with an engine has had resident after some ticks of a steady state.

    Kernels are compiled before, in this process.

    Raises:
        BenchError: the process ended, or a part of the policy failed.
    """
    Engine(settings).warm_up()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, _sendable(settings)), daemon=True)
    process.start()
    there.close()
    try:
        state = SteadyState(load)
        for event in pieces(state.snapshot()):
            here.send([event])
        for _ in range(TICKS):
            for event in state.tick():
                here.send([event])
            here.send((state.now_ms, load.batch, state.sequence))
            made = here.recv()
            if isinstance(made, str):
                raise BenchError(f"{made}; put the part right: what would run instead is another policy")
            state.commit(made)
        here.send(None)
        return float(here.recv())
    except (EOFError, OSError) as error:
        raise BenchError("the process whose memory is measured has ended; is there too little of it?") from error
    finally:
        here.close()
        process.join(10)


def _sendable(settings: Settings) -> Settings | Source:
    """Return what another process can make the settings of: classes from users' files are known only to this one."""
    source = settings.source
    return source if source is not None and source.part_files else settings


def _again(source: Source) -> Settings:
    return parse_settings(source.file, source.text, kept=source.part_files, trust_code=True)


def _serve(pipe: Connection, given: Settings | Source) -> None:
    """Apply lists of events and answer what else comes with a decide, until there is None."""
    settings = given if isinstance(given, Settings) else _again(given)
    engine = Engine(settings)
    message: Any = pipe.recv()
    while message is not None:
        if isinstance(message, list):
            engine.apply(message)
        else:
            now_ms, limit, sequence = message
            made = engine.decide(now_ms, limit, sequence=sequence)
            pipe.send(made if engine.failure is None else str(engine.failure))
        message = pipe.recv()
    pipe.send(peak_memory_mb())
