"""An engine with all that is beside it: its policies, its session, and where it says why applications wait."""

from __future__ import annotations

import time
from pathlib import Path

from treadle.live.beside import Beside
from treadle.live.closing import Close
from treadle.live.explain_door import held_nodes, open_door, shown
from treadle.live.handshake import LIMIT_MIN
from treadle.live.policies import LivePolicies, without_file_parts
from treadle.live.policy_memory import state_folder
from treadle.live.session import Session
from treadle.live.warm_up import warm_up


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
