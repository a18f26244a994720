"""Levels by size that share a leaf by weights (multi-level feedback queue)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster
from treadle.policy.parts import PlainOrder
from treadle.policy.state import LEVELS
from treadle.policy.work import Jobs


class MlfqParameters(Parameters):
    """What can be set; the defaults are those of SLearn."""

    levels: int = Field(default=10, ge=1, le=64, description="How many levels there are.")
    first_threshold_ms: int = Field(
        default=1_000_000, ge=1, le=2**53, description="The largest size, in task time, of the first level."
    )
    threshold_factor: float = Field(
        default=10.0, gt=1.0, le=1e6, description="Each further level's largest size is larger by this factor."
    )
    weight_factor: float = Field(
        default=10.0, ge=1.0, le=1e6, description="Each further level's weight is smaller by this factor."
    )
    size: Literal["estimated", "whole", "attained"] = Field(
        default="estimated",
        description="What counts as size: the time that all tasks took and will take; the estimate of one times how "
        "many there are; or only what they took so far.",
    )
    sampling_level: int = Field(
        default=1, ge=0, le=63, description="The level, from 0, of jobs whose pilots have not ended (gate: pilots)."
    )

    def goes_by_estimates(self) -> bool:
        """What jobs took so far is known without an estimate."""
        return self.size != "attained"


class MlfqOrder(PlainOrder):
    """Applications in levels by size: first in, first out within one, levels share the leaf by weights."""

    def __init__(self, parameters: MlfqParameters) -> None:
        levels = np.arange(parameters.levels)
        self.weights = tuple(float(weight) for weight in parameters.weight_factor ** -levels.astype(float))
        self.thresholds_ms = parameters.first_threshold_ms * parameters.threshold_factor ** levels[:-1].astype(float)
        self._size = parameters.size
        self.sampling_level = min(parameters.sampling_level, parameters.levels - 1)

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Serve every leaf by levels."""
        leaves["order"] = LEVELS

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set each application's level."""
        here = jobs.cluster.apps.in_use()
        size_ms = (jobs.whole_ms() if self._size == "whole" else jobs.container_ms())[here]
        if self._size == "estimated":
            size_ms = size_ms + jobs.left_ms()[here]
        level = jobs.level()[here]
        key[here] = np.where(level < 0, np.searchsorted(self.thresholds_ms, size_ms), level)
