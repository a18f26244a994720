"""The engine's answer, as columns: proposals, and deliberately held applications and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Proposals:
    """Containers to place, in order: a row is one container for a request key of an application attempt on a node.

    All three columns hold indices assigned by the shim (docs/wire-format.md) and have one row per container. The
    ResourceManager checks a proposal against its own state, and commits it or returns a reason
    (`treadle.events.Fates`).
    """

    application: npt.NDArray[np.int32]
    key: npt.NDArray[np.int32]
    node: npt.NDArray[np.int32]
    transaction: npt.NDArray[np.int32] | None = None
    """Adjacent rows with one number are committed together or not at all; None: each for itself."""

    def __len__(self) -> int:
        return len(self.application)

    @classmethod
    def none(cls) -> Proposals:
        """No proposals."""
        empty = np.empty(0, np.int32)
        return cls(empty, empty, empty)


class Held(NamedTuple):
    """Distinct indices of applications and nodes that a policy deliberately holds back."""

    applications: npt.NDArray[np.int32]
    """Those with a request that waits only for the policy."""
    nodes: npt.NDArray[np.int32]
    """Those with free resources reserved for other requests than the present ones."""


NOTHING_HELD: Final = Held(np.empty(0, np.int32), np.empty(0, np.int32))
