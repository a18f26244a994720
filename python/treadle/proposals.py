"""What the engine answers, as columns: proposals, and what it holds back on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Proposals:
    """Containers to place, in order: a row is one container for a request key of an application attempt on a node.

    All three columns hold indices given by the shim (docs/wire-format.md) and have one row a container. A proposal is a
    wish: the ResourceManager checks it against its own state and commits it or says why not (`treadle.events.Fates`).
    """

    application: npt.NDArray[np.int32]
    key: npt.NDArray[np.int32]
    node: npt.NDArray[np.int32]
    transaction: npt.NDArray[np.int32] | None = None
    """Rows of one number, next to each other, are to be committed together or not at all; None: each for itself."""

    def __len__(self) -> int:
        return len(self.application)

    @classmethod
    def none(cls) -> Proposals:
        """No proposals."""
        empty = np.empty(0, np.int32)
        return cls(empty, empty, empty)


class Held(NamedTuple):
    """What a policy holds back on purpose though the ResourceManager would serve it, by index, each once."""

    applications: npt.NDArray[np.int32]
    """Those with an ask that waits for the policy alone."""
    nodes: npt.NDArray[np.int32]
    """Those whose room, or a part of it, is kept for other asks than those that could have it now."""


NOTHING_HELD: Final = Held(np.empty(0, np.int32), np.empty(0, np.int32))
