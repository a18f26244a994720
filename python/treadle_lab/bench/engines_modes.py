"""The rosters that `treadle bench engines` compares, and the part of a policy that thinks for long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from treadle_lab.bench.paced_load import LONG_QUEUE
from treadle_lab.sls.load import Mode, treadle_under

LEASE_MS: Final = 20_000
"""Of all modes alike: an engine that decides alone for seconds must keep its lease, or the stock scheduler works."""

PART_TIMEOUT_MS: Final = 60_000
DECISION_MAX_S: Final = 120

_THOUGHT: Final = '''\
"""Thinks about asks for a time that is set; written by treadle bench engines."""

import time

import numpy as np


def think(seconds, cpu):
    if not cpu:
        time.sleep(seconds)
        return
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


class ForQueue:
    """Takes ``seconds`` for each decision while a queue asks for something."""

    def __init__(self, queue, seconds, cpu):
        self.queue, self.seconds, self.cpu = queue, seconds, cpu

    def allows(self, view):
        asks = (view.requests["application"] >= 0) & (view.request_count > 0)
        queues = view.applications["queue"][view.requests["application"][asks]]
        if any(view.queue_paths[at] == self.queue for at in queues.tolist()):
            think(self.seconds, self.cpu)
        return np.ones(len(view.requests), bool)


class ForTasks:
    """Takes up the tasks of one job in a decision, and thinks about it and about each of them."""

    def __init__(self, queues, job_s, task_s):
        self.queues, self.job_s, self.task_s = set(queues), job_s, task_s

    def allows(self, view):
        owner = view.requests["application"]
        asks = np.flatnonzero((owner >= 0) & (view.request_count > 0))
        waiting = view.applications["awaiting_am"]
        for_tasks = [at for at in asks if not waiting[owner[at]] and self.is_mine(view, owner[at])]
        allowed = np.ones(len(owner), bool)
        allowed[for_tasks] = False
        if for_tasks:
            first = min(owner[at] for at in for_tasks)
            mine = [at for at in for_tasks if owner[at] == first]
            time.sleep(self.job_s + self.task_s * sum(int(view.request_count[at]) for at in mine))
            allowed[mine] = True
        return allowed

    def is_mine(self, view, application):
        return view.queue_paths[view.applications["queue"][application]] in self.queues
'''


@dataclass(frozen=True, slots=True)
class Thought:
    """How long a decision about jobs of `LONG_QUEUE` takes."""

    seconds: float
    cpu: bool = False
    """It keeps a processor busy; else it is asleep."""

    def gate(self, file: Path) -> dict[str, Any]:
        """Return the gate that thinks so."""
        parameters = {"queue": f"root.{LONG_QUEUE}", "seconds": self.seconds, "cpu": self.cpu}
        return {"kind": "file", "path": str(file), "class": "ForQueue", "parameters": parameters}


@dataclass(frozen=True, slots=True)
class Tasks:
    """How long a decision takes: so long for a job, and so long for each of its tasks, one job in a decision."""

    job_s: float = 0.1
    task_s: float = 0.005

    def gate(self, file: Path, queues: list[str]) -> dict[str, Any]:
        """Return the gate that thinks so."""
        parameters = {"queues": queues, "job_s": self.job_s, "task_s": self.task_s}
        return {"kind": "file", "path": str(file), "class": "ForTasks", "parameters": parameters}


class Rosters:
    """Writes a treadle.yaml for each mode into a folder."""

    def __init__(self, folder: Path, further: Mapping[str, str] = MappingProxyType({})) -> None:
        """Begin; ``further`` goes to the yarn-site.xml of every mode."""
        self._folder = folder
        self._further = further
        folder.mkdir(parents=True, exist_ok=True)
        self._thought = folder / "thought.py"
        self._thought.write_text(_THOUGHT, encoding="utf-8")

    def alone(self, name: str) -> Mode:
        """One engine that decides on all jobs as fast as it can."""
        return self._mode(name, {}, 1)

    def beside(self, name: str, thought: Thought) -> Mode:
        """An engine beside another, which thinks for long about the jobs of `LONG_QUEUE`."""
        long = {
            "select": {"queues": [f"root.{LONG_QUEUE}"]},
            "decision_max_s": DECISION_MAX_S,
            "policy": {"gate": thought.gate(self._thought)},
        }
        return self._mode(name, {"engines": {"long": long, "short": {}}}, 2)

    def one(self, name: str, thought: Thought) -> Mode:
        """One engine that thinks for long about some of its jobs."""
        return self._mode(name, {"policy": {"gate": thought.gate(self._thought)}}, 1)

    def copies(self, name: str, copies: int, tasks: Tasks | None, queues: list[str], entry: Mapping[str, Any]) -> Mode:
        """Copies of an engine; with ``tasks`` each thinks about each of its jobs."""
        policy = {"policy": {"gate": tasks.gate(self._thought, queues)}} if tasks else {}
        all_ = {"copies": copies, "decision_max_s": DECISION_MAX_S, **entry, **policy}
        return self._mode(name, {"engines": {"all": all_}}, copies)

    def _mode(self, name: str, document: Mapping[str, Any], engines: int) -> Mode:
        file = self._folder / f"{name}.yaml"
        content = {"limits": {"part_timeout_ms": PART_TIMEOUT_MS}, **document}
        file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        settings = {
            "yarn.scheduler.treadle.lease-ms": str(LEASE_MS),
            "yarn.scheduler.treadle.idle-guard-ms": "0",
            "treadle.bench.engines": str(engines),
            **self._further,
        }
        # so that no job waits for another one's end
        masters = {"yarn.scheduler.capacity.maximum-am-resource-percent": "0.6"}
        return treadle_under(name, file, settings, masters)
