"""Free ports on loopback."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from treadle.lab.minicluster.errors import ClusterError

LOOPBACK = "127.0.0.1"
# Below the range from which the kernel takes ports for outgoing connections: none is lost between choice and use.
FIRST, LAST = 20000, 32000


def free_ports(count: int) -> list[int]:
    """Choose `count` different ports that nothing listens on.

    Raises:
        ClusterError: there are not that many.
    """
    candidates = list(range(FIRST, LAST))
    random.shuffle(candidates)
    chosen: list[int] = []
    with ExitStack() as held:
        for port in candidates:
            if len(chosen) == count:
                break
            probe = held.enter_context(socket.socket())
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            chosen.append(port)
    if len(chosen) < count:
        raise ClusterError(
            f"fewer than {count} free ports between {FIRST} and {LAST}; stop something that listens there"
        )
    return chosen
