"""An engine with all that is beside it: its policies, its session, and where it says why applications wait.

It compiles its kernels before the first real frame, with a small invented cluster in a session of its own. numba
compiles a kernel for each combination of types that it meets, among them whether an array may be written to and whether
it is aligned; columns of decoded events are neither. So the way through the wire compiles what will be used.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Final

from treadle import events
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.engine.testing import small_cluster, small_events
from treadle.live.explain_server import open_explain_server
from treadle.live.handshake import LIMIT_MIN
from treadle.live.observation_file import open_observation
from treadle.live.policies import HubEvents, LivePolicies, without_file_parts
from treadle.live.policy_memory import state_folder
from treadle.live.question_socket import Close
from treadle.live.session import Session
from treadle.wire.answer import decode_answer
from treadle.wire.frames import FrameEncoder, FrameHeader
from treadle.wire.schema import SECTIONS, FrameFlag

_log = logging.getLogger(__name__)

_REPLY_MAX_BYTES: Final = 1 << 20

ON_THE_WIRE: Final = (events.Snapshot, events.Fates, *(section.event for section in SECTIONS.values()))


def warm_up(settings: Settings) -> int:
    """Compile everything that a decision needs; returns how many containers were placed on the invented cluster.

    Raises:
        RuntimeError: the engine failed on it.
    """
    _log.info("compiling kernels")
    try:
        Engine(settings).warm_up()
    except Exception as error:
        raise RuntimeError(f"the engine cannot warm up: {type(error).__name__}: {error}") from error
    session = Session(Engine, lambda: settings, reply_max_bytes=_REPLY_MAX_BYTES, clock_ns=lambda: 0)
    encoder = FrameEncoder()
    placed = 0
    for sequence, batch in enumerate([small_cluster(), *small_events()], 1):
        sent = [event for event in batch if isinstance(event, ON_THE_WIRE)]
        flags = int(FrameFlag.SNAPSHOT) if sequence == 1 else 0
        header = FrameHeader(flags, 1, sequence, 1_000 * sequence, 0, 16, 2)
        answer = decode_answer(session.decide(encoder.encode(header, sent)), 16)
        if answer.resend:
            raise RuntimeError(
                f"the engine failed on frame {sequence} of the cluster that it warms up on: {answer.status}"
            )
        placed += len(answer.proposals)
    return placed


def open_session(
    config: Path | None, closing: list[Close], engine: str = "", beside: HubEvents | None = None
) -> Session:
    """Return the session of an engine that is ready.

    Args:
        config: treadle.yaml
        closing: gets what is to be called before the process ends
        engine: one of several; empty: the only one
        beside: as of `LivePolicies`

    Raises:
        ConfigError: the settings are wrong.
    """
    policies = LivePolicies(config, engine=engine, hub_events=beside)
    settings = policies.start()
    warm_up(without_file_parts(settings))
    folder = None if config is None else state_folder(config, engine=engine)
    # of several engines the hub compares; without a folder there is no door at which the figures could be asked for
    observation = open_observation(folder, closing) if folder is not None and not engine else None
    session = policies.session(settings, LIMIT_MIN, time.perf_counter_ns, observation)
    closing.append(policies.close)
    open_explain_server(folder, session.with_engine, observation)
    return session
