"""Which allocation tags the containers of applications have.

Steps in a container's life name its priority, not its request key. So containers have the tags of the asks of their
priority; where asks of one priority have different tags, those of its containers are not known.
"""

from __future__ import annotations

from treadle.compiled.array_types import I32

Tags = frozenset[str]


class AllocationTags:
    """By application and priority the tags of containers; None: not known."""

    def __init__(self) -> None:
        self.of: dict[int, dict[int, Tags | None]] = {}

    def say(self, application: int, priority: int, tags: Tags) -> None:
        """Take the tags of an ask."""
        known = self.of.setdefault(application, {})
        known[priority] = tags if known.get(priority, tags) == tags else None

    def drop(self, application: int) -> None:
        """Forget an application."""
        self.of.pop(application, None)

    def follow(self, old: AllocationTags, apps: I32) -> None:
        """Take over the tags of priorities that a snapshot no longer has; ``apps`` has the new indices."""
        for application, known in old.of.items():
            now = int(apps[application]) if application < len(apps) else -1
            if now >= 0:
                mine = self.of.setdefault(now, {})
                for priority, tags in known.items():
                    mine.setdefault(priority, tags)
