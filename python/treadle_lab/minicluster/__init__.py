"""A real YARN cluster on this machine: a ResourceManager and NodeManagers, processes of their own on loopback."""

from __future__ import annotations

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterError, ClusterSettings, NodeAttribute, NodeLabel, Scheduler

__all__ = ["ClusterError", "ClusterSettings", "MiniCluster", "NodeAttribute", "NodeLabel", "Scheduler"]
