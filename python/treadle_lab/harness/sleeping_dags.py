"""How a DAG's stages are named and ask in units of YARN."""

from __future__ import annotations

from typing import Final

from treadle.dag.dag import Stage

MEMORY: Final = "memory-mb"
VCORES: Final = "vcores"


def vertex_name(stage: Stage) -> str:
    """Return what the vertex of a stage is called."""
    return stage.name or f"v{stage.id}"


def asks(stage: Stage) -> dict[str, int]:
    """Return what a task asks for besides memory and virtual cores, by resource type; what it does not is left out."""
    return {
        name: round(amount) for name, amount in stage.demand.items() if name not in (MEMORY, VCORES) and round(amount)
    }
