"""The texts that frames send once, and what they stand for: partitions, nodes, racks."""

from __future__ import annotations

import numpy as np

from treadle.compiled.array_types import I32
from treadle.model.tables import ModelError, grown

MAX_PARTITIONS = 64
"""More node labels than a cluster has; bounds the tables that have a column for each."""


class Names:
    """Texts by index, and the partitions among them numbered from 0 (the default partition, the empty text)."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._index: dict[str, int] = {}
        self.partitions: list[int] = [0]
        self.first_node: I32 = np.full(64, -1, np.int32)
        """For each name the first node that bears it, or -1; `NodeColumns.next_same_name` has the others."""
        self._partition: I32 = np.full(64, -1, np.int32)
        self._partition[0] = 0

    def add(self, texts: tuple[str, ...]) -> None:
        """Give ``texts`` the next indices, in order."""
        for at, text in enumerate(texts, len(self.texts)):
            self._index.setdefault(text, at)
        self.texts.extend(texts)
        self.first_node = grown(self.first_node, len(self.texts), -1)
        self._partition = grown(self._partition, len(self.texts), -1)

    def index_of(self, text: str) -> int:
        """Return the index of a text, -1 if it was never sent."""
        return self._index.get(text, -1)

    def check(self, index: I32) -> None:
        """Raise `ModelError` unless every one of ``index`` was given to a text."""
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(self.texts)):
            raise ModelError(f"name index {int(index.max())} was never sent; there are {len(self.texts)} names")

    def partitions_of(self, index: I32) -> I32:
        """Return the numbers of the partitions with these names; one not seen before gets the next number."""
        self.check(index)
        numbers: I32 = self._partition[index]
        if len(numbers) and int(numbers.min()) < 0:
            for name in sorted({int(name) for name in index[numbers < 0]}):
                if len(self.partitions) == MAX_PARTITIONS:
                    raise ModelError(f"more than {MAX_PARTITIONS} partitions")
                self._partition[name] = len(self.partitions)
                self.partitions.append(name)
            numbers = self._partition[index]
        return numbers
