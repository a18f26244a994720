"""Runs the checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from treadle.admin.doctor import class_path, files, hadoop, host, managers
from treadle.admin.doctor.checks import TROUBLE_REMEDY, Check, Facts, Finding
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
    Check("jar", "Hadoop", class_path.jar),
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
    """Yield what the checks find; one that fails itself is a finding too, and the others go on."""
    for check in checks:
        facts.were_asked = False
        found = list(_found(check, facts))
        if facts.were_asked and facts.site_trouble and check.name != "settings":
            # What was judged by settings that nobody could read is not well.
            found = [each for each in found if each.status != "ok"]
            found.append(Finding("skipped", f"unknown: {facts.site_trouble}", TROUBLE_REMEDY))
        yield from (Result(check, each) for each in found)


def _found(check: Check, facts: Facts) -> Iterator[Finding]:
    try:
        yield from check.look(facts)
    except UserError as error:
        yield Finding("fail", str(error))
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        yield Finding("fail", f"{name}{error.strerror or error}", "run it as root, or as a user who may read that")
    except Exception as error:
        text = f"the check itself failed: {type(error).__name__}: {error}"
        yield Finding("fail", text, "report it, with what you see here")
