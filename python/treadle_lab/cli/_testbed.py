"""What the commands that run on Hadoop's load simulator have in common: `--on sls`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treadle_lab.sls.run import Setting

STALL_S: Final = 180.0
"""A run in which nothing happens for so long is given up."""
HEAP_MB: Final = 2_048


class ClusterKind(StrEnum):
    """Where an experiment with clusters runs."""

    MINICLUSTER = "minicluster"
    SLS = "sls"


class SimulatorKind(StrEnum):
    """Where an experiment with simulations runs."""

    SIMULATOR = "simulator"
    SLS = "sls"


def setting_of_testbed(sidecar: Path | None = None) -> Setting:
    """Return Java, class path and sidecar of the testbed; may gather Hadoop's jars and build for a minute.

    Raises:
        BenchError: something is missing; the text says how to get it.
    """
    from treadle_lab.cli.bench.cluster import sidecar_command
    from treadle_lab.sls import load as jars
    from treadle_lab.sls.load import Workload
    from treadle_lab.sls.run import Setting

    java, command = jars.java_command(), str(sidecar_command(sidecar))
    return Setting(Workload(1, 1, 1, 1), jars.class_path(None), java, HEAP_MB, command, STALL_S)
