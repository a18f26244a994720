"""Plays the draws of an experiment, under one scheme after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from treadle_lab.sls.cluster import Cluster, Scheduling
from treadle_lab.sls.kept_plays import KeptPlays
from treadle_lab.sls.play import Played, play
from treadle_lab.sls.run import Setting
from treadle_lab.sls.script import Script

__all__ = ["Player", "in_turn"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Player:
    """Plays draws on simulated nodes of a real ResourceManager, one run after the other."""

    setting: Setting
    """Java, class path, heap, the sidecar's command."""
    folder: Path
    """Of the experiment; each run has a folder in it."""
    kept: KeptPlays
    """Runs that need not be played again."""
    say: Callable[[str], None]
    """Called now and then with a line about progress."""

    def play(self, scheduling: Scheduling, script: Script, cluster: Cluster, seed: int) -> Played:
        """Play the script of a draw to its end.

        Raises:
            BenchError: the run gave no result.
        """
        place = self.folder / f"{seed}-{scheduling.name}"
        return play(
            scheduling, script, cluster, self.setting, seed, place, lambda text: self.say(f"seed {seed}, {text}")
        )


def in_turn(schemes: Sequence[T], turn: int) -> tuple[T, ...]:
    """Return schemes, beginning with another one in each turn: the first one finds the machine's caches cold."""
    first = turn % len(schemes)
    return (*schemes[first:], *schemes[:first])
