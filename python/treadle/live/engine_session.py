"""An engine with all that is beside it: its policies, its session, and where it says why applications wait.

Compiles the engine's kernels before the first real frame, with a small invented cluster in a session of its own.

numba compiles a kernel for each combination of types that it meets, among them whether an array may be written to and
whether it is aligned; columns of decoded events are neither. So the way through the wire is the one that compiles
what will be used.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle import events
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.engine.invented_cluster import Texts, request, resource_types, rows
from treadle.live.door import Close
from treadle.live.explain_server import held_nodes, open_door, shown
from treadle.live.handshake import LIMIT_MIN
from treadle.live.policies import Beside, LivePolicies, without_file_parts
from treadle.live.policy_memory import state_folder
from treadle.live.session import Session
from treadle.wire.answer import decode_answer
from treadle.wire.frames import FrameEncoder, FrameHeader
from treadle.wire.schema import FrameFlag

_log = logging.getLogger(__name__)

_REPLY_MAX_BYTES: Final = 1 << 20


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
    for sequence, found in enumerate(_frames(), 1):
        flags = int(FrameFlag.SNAPSHOT) if sequence == 1 else 0
        header = FrameHeader(flags, 1, sequence, 1_000 * sequence, 0, 16, 2)
        answer = decode_answer(session.decide(encoder.encode(header, found)), 16)
        if answer.resend:
            raise RuntimeError(
                f"the engine failed on frame {sequence} of the cluster that it warms up on: {answer.status}"
            )
        placed += len(answer.proposals)
    return placed


def _frames() -> list[list[events.Event]]:
    """Return the events of three frames: a cluster, what its application asks for, and the fates of two proposals.

    The cluster has two nodes, a queue of one leaf and an application whose AM runs.
    """
    texts, whole, task = Texts(), np.array([8192, 8]), np.array([1024, 1])
    limits = dict.fromkeys(("guaranteed", "maximum"), 2 * whole) | {"am_limit": whole}
    none = dict.fromkeys(("used", "pending", "am_used"), 0 * whole)
    node = {"rack_name": "/rack", "state": 1, "total": whole}
    attempt = {"cluster_timestamp": 1, "id": 1, "attempt": 1, "name_name": "YARN", "type_name": "YARN", "replaces": 7}
    container = {"container": 1, "priority": 1, "event": 1, "time_ms": 2500, "created_ms": 2500, "by_treadle": 1}
    times = {"submit_time_ms": 1, "start_time_ms": 1}
    leaf = {"queue": 1, "path_name": "root.default", "leaf": 1, "ordering_policy_name": "fifo"}
    asks = [request(0, key, 2, [1024, 1], priority=1 + key) for key in (0, 1)]
    near = [{"key": 1, "name_name": name, "count": 2, "relax_locality": 1} for name in ("node-0", "/rack")]
    fates = [{"sequence": 2}, {"sequence": 2, "position": 1, "fate": int(events.Fate.NODE_FULL)}]
    frames: list[list[tuple[type[Any], list[dict[str, Any]]]]] = [
        [
            (events.Queues, [{"parent": -1, "path_name": "root", "state": 1}, leaf | {"state": 1}]),
            (events.QueueLimits, [{"queue": queue} | limits | none for queue in (0, 1)]),
            (events.Users, [{"queue": 1, "user_name": "user", "limit": 2 * whole, "used": 0 * whole}]),
            (events.Nodes, [{"node": at, "name_name": f"node-{at}", "free": whole} | node for at in (0, 1)]),
            (events.Applications, [attempt | times | {"user_name": "user", "queue": 1, "state": 1}]),
            (events.ApplicationUsage, [{"used": 0 * whole, "headroom": whole}]),
        ],
        [
            (events.Tags, [{"tag_name": "YARN"}]),
            (events.Blacklist, [{"name_name": "node-1", "present": 1}]),
            (events.Requests, asks),
            (events.Localities, near),
        ],
        [
            (events.Nodes, [{"name_name": "node-0", "free": whole - task} | node]),
            (events.ApplicationUsage, [{"containers": 1, "used": task, "headroom": whole - task}]),
            (events.Containers, [container | {"capability": task}]),
            (events.Fates, [fates[0] | {"container": 1}, fates[1]]),
        ],
    ]
    made = [[rows(kind, texts, given) for kind, given in frame] for frame in frames]
    settings = {"node-locality-delay": "2"}
    types = resource_types(("memory-mb", "vcores"), (1, 1))
    for text in (*types.names, *types.units, *settings, *settings.values()):
        texts.index(text)
    head: list[Any] = [events.Snapshot(1), texts.drain(), types, events.Settings(settings)]
    return [head + made[0], *made[1:]]


def open_session(config: Path | None, closing: list[Close], engine: str = "", beside: Beside | None = None) -> Session:
    """Return the session of an engine that is ready.

    Args:
        config: treadle.yaml
        closing: gets what is to be called before the process ends
        engine: one of several; empty: the only one
        beside: as of `LivePolicies`

    Raises:
        ConfigError: the settings are wrong.
    """
    policies = LivePolicies(config, engine=engine, beside=beside)
    settings = policies.start()
    warm_up(without_file_parts(settings))
    session = policies.session(settings, LIMIT_MIN, time.perf_counter_ns)
    closing.append(policies.close)
    open_door(
        None if config is None else state_folder(config, engine=engine),
        lambda action: session.look(lambda deciding: shown(deciding, action)),
        lambda: session.look(held_nodes),
    )
    return session
