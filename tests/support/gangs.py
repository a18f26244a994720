"""Two engines and application masters that need all or nothing, and often withdraw what they have asked for.

One engine has `transactions: gang`; the other one serves applications with the tag `treadle:gang=N`, and one that takes
whatever it gets and so takes room away from both.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.clusters import engines_cluster
from tests.support.engines import served_by
from tests.support.masters import Master, Masters

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

WHOLE, REST = "whole", "rest"

TREADLE_YAML: Final = f"""
engines:
  {WHOLE}:
    select: {{queues: [root.batch]}}
    transactions: gang
    retry: {{backoff_ms: 20, backoff_max_ms: 100, attempts_max: 1000000}}
    fallback: {REST}
  {REST}:
    retry: {{backoff_ms: 20, backoff_max_ms: 100, attempts_max: 1000000}}
    fallback: {WHOLE}
"""

GANG: Final = 5
CONTAINER_MB: Final = 512
SLOTS: Final = 16
"""Containers that the cluster has room for: three gangs, if nobody else has more than one."""

ASKS_MAX: Final = 4
"""Of the application that takes what it gets."""

PRIORITIES: Final = 16
"""An application asks for its gangs at these in turn."""

PAUSE_S: Final = 0.03
START_S: Final = 300.0


def gang_cluster(folder: Path) -> MiniCluster:
    """Return a cluster, not yet started, of one node and two engines."""
    settings = ClusterSettings(nodes=1, memory_mb=SLOTS * CONTAINER_MB, vcores=4 * SLOTS, start_timeout_s=START_S)
    return engines_cluster(folder, settings, TREADLE_YAML)


def wait_engines(cluster: MiniCluster) -> None:
    """Wait until each engine serves its own applications."""
    cluster.wait_for("both engines", lambda: served_by(cluster) == {WHOLE: WHOLE, REST: REST}, START_S)


class Gangs:
    """The applications, each with a thread of its own that asks, withdraws and takes until it is stopped."""

    def __init__(self, masters: Masters, seed: int) -> None:
        self._seed = seed
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.counts: Counter[str] = Counter()
        """`gangs` that were had, of them `by_engine` and `by_tag`; `withdrawn` asks; `singles`."""
        self.mistakes: list[str] = []
        """Gangs that were had in part, and threads that broke off."""
        tag = [f"treadle:gang={GANG}"]
        # what a gang engine's application asks for is its gang: all is withdrawn, so that a part of five is none
        none, fewer = (0,), tuple(range(GANG))
        self._askers = [
            *((masters.start("ann", "batch"), "by_engine", none) for _ in range(2)),
            *((masters.start("bob", "default", tag), "by_tag", fewer) for _ in range(2)),
        ]
        self._taker = masters.start("eve", "default")

    def start(self) -> None:
        """Let all begin."""
        lives: list[Callable[[], None]] = [self._life(at, *asker) for at, asker in enumerate(self._askers)]
        lives.append(self._takes)
        for at, life in enumerate(lives):
            thread = threading.Thread(target=self._guarded, args=(life,), name=f"gangs-{at}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Let all give back what they have, and end."""
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=120)
            if thread.is_alive():
                self.mistakes.append(f"{thread.name} has not ended")
        for master, _, _ in self._askers:
            master.end()
        self._taker.end()

    def _guarded(self, life: Callable[[], None]) -> None:
        try:
            life()
        except Exception as error:
            self.mistakes.append(f"{threading.current_thread().name} broke off: {error}")
            self._over.set()

    def _life(self, at: int, master: Master, kind: str, less: tuple[int, ...]) -> Callable[[], None]:
        numbers = random.Random(f"{self._seed} {at}")

        def live() -> None:
            priority = 1
            while not self._over.is_set():
                withdraws = numbers.random() < 1 / 3
                wanted = numbers.choice(less) if withdraws else GANG
                master.want(priority, wanted, CONTAINER_MB)
                got = master.take()
                with self._lock:
                    self.counts["withdrawn"] += withdraws
                    if got == GANG:
                        self.counts["gangs"] += 1
                        self.counts[kind] += 1
                    elif got:
                        said = f"{got} containers instead of {GANG} or none ({kind}, {master.application_id})"
                        self.mistakes.append(f"{said}, when {wanted} were asked for")
                if got:
                    # whoever has a gang may get more one by one, also by a decision that is under way: the next gang
                    # begins with nothing, and at another priority
                    _give_back(master, priority)
                    priority = priority % PRIORITIES + 1
                time.sleep(numbers.random() * PAUSE_S)
            _give_back(master, priority)

        return live

    def _takes(self) -> None:
        numbers = random.Random(f"{self._seed} takes")
        while not self._over.is_set():
            self._taker.want(1, numbers.randint(0, ASKS_MAX), CONTAINER_MB)
            got = self._taker.take()
            with self._lock:
                self.counts["singles"] += got
            time.sleep(numbers.random() * PAUSE_S)
        _give_back(self._taker, 1)


def _give_back(master: Master, priority: int) -> None:
    """Ask for nothing; what had come and what had been held goes back."""
    master.want(priority, 0, CONTAINER_MB)
    while master.take():
        pass
