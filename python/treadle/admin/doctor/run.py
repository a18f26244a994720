"""Runs the checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from treadle.admin.doctor import files, hadoop, host, managers
from treadle.admin.doctor.checks import Check, Facts, Finding
from treadle.config.errors import unknown
from treadle.errors import UserError

CHECKS: Final = (
    Check("python", "host", host.python),
    Check("packages", "host", host.packages),
    Check("installation", "host", host.installation),
    Check("kernels", "host", host.kernels),
    Check("memory", "host", host.memory),
    Check("settings", "Hadoop", hadoop.settings),
    Check("features", "Hadoop", hadoop.features),
    Check("jar", "Hadoop", hadoop.jar),
    Check("java", "Hadoop", hadoop.java),
    Check("owners", "files", files.owners),
    Check("connection", "files", files.connection),
    Check("reach", "ResourceManagers", managers.reach, asks_rm=True),
    Check("modes", "ResourceManagers", managers.modes, asks_rm=True),
    Check("clock", "ResourceManagers", managers.clock, asks_rm=True),
    Check("lease", "ResourceManagers", managers.lease, asks_rm=True),
    Check("sidecar", "ResourceManagers", managers.sidecar, asks_rm=True),
)


class Result(NamedTuple):
    """A finding of a check."""

    check: Check
    finding: Finding

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        finding = self.finding
        return {
            "group": self.check.group,
            "check": self.check.name,
            "status": finding.status,
            "text": finding.text,
            "remedy": finding.remedy,
        }


def chosen_checks(only: Sequence[str], *, pre: bool) -> list[Check]:
    """Return the checks to run; before an installation those that need a ResourceManager are left out.

    Raises:
        UserError: a name is not one of them.
    """
    names = [check.name for check in CHECKS]
    for name in only:
        if name not in names:
            raise UserError(f"--only {unknown(name, names)}")
    if only:
        return [check for check in CHECKS if check.name in only]
    return [check for check in CHECKS if not (pre and check.asks_rm)]


def examine(facts: Facts, checks: Sequence[Check]) -> Iterator[Result]:
    """Yield what the checks find; one that fails itself says so, and the others go on."""
    for check in checks:
        try:
            for finding in check.look(facts):
                yield Result(check, finding)
        except Exception as error:
            text = f"the check itself failed: {type(error).__name__}: {error}"
            yield Result(check, Finding("fail", text, "report it, with what you see here"))
