"""What can go wrong with a mini cluster in a way that its user can mend."""

from __future__ import annotations

from treadle.errors import UserError


class ClusterError(UserError):
    """A mini cluster cannot do what was asked; the text says why and what to do about it."""
