"""Where a policy is measured, a part of it that fails must not go unnoticed: what runs after it is another policy."""

from __future__ import annotations

from treadle.errors import UserError
from treadle.policy.user_parts import PartFailure


class PolicyFailedError(UserError):
    """A part of the policy that is measured has failed: from there on figures would be those of another policy."""

    def __init__(self, failure: PartFailure, when: str) -> None:
        super().__init__(f"{failure}, {when}; put the part right: what would run instead is another policy")
        self.failure = failure


def insist(failure: PartFailure | None, when: str) -> None:
    """Do nothing if there is no failure.

    Raises:
        PolicyFailedError: there is one; ``when`` says when it was seen.
    """
    if failure is not None:
        raise PolicyFailedError(failure, when) from failure
