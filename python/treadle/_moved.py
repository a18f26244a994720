"""Modules under their names of before, for the code of users: each goes on working and names the new one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Final

MOVED: Final = MappingProxyType(
    {
        "treadle.estimate": "treadle.history.estimators",
        "treadle.estimate.history": "treadle.history.estimators.three_sigma",
        "treadle.minicluster": "treadle.lab.minicluster",
        "treadle.model.scripted": "treadle.engine.invented_cluster",
        "treadle.planner.following": "treadle.planner.online",
        "treadle.planner.search": "treadle.planner.graphene",
        "treadle.policy.moment": "treadle.policy.cluster_view",
        "treadle.profiles": "treadle.history",
        "treadle.workload.distributions": "treadle.workload.generate",
        "treadle.workload.google": "treadle.workload.traces.google",
        "treadle.workload.load": "treadle.workload.job",
        "treadle.workload.shapes": "treadle.workload.generate",
        "treadle.workload.slearn": "treadle.lab.reproduce.slearn.workload",
        "treadle.workload.swim": "treadle.workload.traces.swim",
    }
)
"""Packages, with all modules in them, and modules: those that the pages in docs/ have shown."""


class Finder(MetaPathFinder):
    """Finds what was moved."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module by its name of before; None for all others."""
        new = name_now(fullname)
        return None if new is None else ModuleSpec(fullname, _Loader(new))


def name_now(name: str) -> str | None:
    """Return what a module that was moved is called now; None if none of that name was."""
    if name in MOVED:
        return MOVED[name]
    package, _, module = name.rpartition(".")
    return f"{MOVED[package]}.{module}" if package in MOVED else None


class _Loader(Loader):
    """Puts the module itself in the place of its name of before: there are no two copies of a class."""

    def __init__(self, name: str) -> None:
        self._name = name

    def exec_module(self, module: ModuleType) -> None:
        """Import the module by its name of now."""
        sys.modules[module.__name__] = import_module(self._name)
        warnings.warn(f"{module.__name__} is {self._name} now; import that", FutureWarning, stacklevel=2)
