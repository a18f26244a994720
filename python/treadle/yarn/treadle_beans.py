"""What the beans of a ResourceManager with Treadle say: whether it schedules, and the figures of each engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from treadle.errors import UserError
from treadle.yarn.application_ids import is_named, several

ENGINE_PREFIX: Final = "TreadleEngine-"
"""Names of the beans of several engines begin so."""

_COUNTS: Final = {
    "committed": "Committed",
    "transactions": "Transactions",
    "conflicts": "Conflicts",
    "attempts": "Attempts",
    "wait_mean_ms": "WaitMeanMs",
    "wait_p50_ms": "WaitP50Ms",
    "wait_p99_ms": "WaitP99Ms",
    "retries": "Retries",
    "given_up": "GivenUp",
    "moved": "Moved",
    "too_large": "TooLarge",
    "over_claim": "RejectedClaim",
    "changed": "RejectedChanged",
    "not_owner": "RejectedNotOwner",
    "taken_back": "TransactionsTakenBack",
    "commit_wait_p99_us": "CommitWaitP99Us",
    "lease_flips": "LeaseFlips",
}
"""What is shown under which name, and which metric it is."""


def why_not(bean: Mapping[str, Any]) -> str:
    """Return why Treadle does not schedule, by its bean; empty if it does."""
    if bean.get("Schedules") == 1:
        return ""
    if "Schedules" not in bean:
        return "the ResourceManager does not report it; use the jar of this version"
    mode = str(bean.get("Mode") or "unknown")
    if mode != "enforce":
        return f"the mode is {mode}, so that the CapacityScheduler schedules"
    if bean.get("Refusal"):
        return str(bean["Refusal"])
    starts = "a sidecar has been started, and does not answer yet" if bean.get("SidecarStarts") else ""
    return f"no engine holds the lease; {bean.get('LastError') or starts or 'no error is reported'}"


def engine_figures(name: str, life: Mapping[str, Any], bean: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of one of several engines: its part of the roster's bean, and of its own."""
    useful, wasted, empty = (int(bean.get(f"Decision{kind}Ms", 0)) for kind in ("Useful", "Wasted", "Empty"))
    counts = {shown: int(bean.get(name, 0)) for shown, name in _COUNTS.items()}
    transactions, conflicts = counts["transactions"], counts["conflicts"]
    return {
        "engine": name,
        "entry": life.get("entry", ""),
        "lives": bool(life.get("lives", False)),
        "has_answered": bool(life.get("lives", False)) or int(bean.get("LeaseFlips", 1)) > 0,
        "served_by": life.get("served_by", ""),
        "applications": int(life.get("applications", 0)),
        "policy": bean.get("Policy", ""),
        "busy": round((useful + wasted + empty) / max(1, int(bean.get("SinceMs", 0))), 4),
        "useful_ms": useful,
        "wasted_ms": wasted,
        "empty_ms": empty,
        **counts,
        "conflict_fraction": round(conflicts / transactions, 4) if transactions else None,
        "last_error": bean.get("LastError", ""),
    }


def engine_name(bean: Mapping[str, Any]) -> str:
    """Return whose a bean is: of ``Hadoop:service=ResourceManager,name=TreadleEngine-batch`` it is ``batch``."""
    return str(bean.get("name", "")).rpartition(ENGINE_PREFIX)[2]


def roster_of(bean: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return ``engines`` and ``applications`` of the bean TreadleEngines.

    Raises:
        ValueError, KeyError, TypeError: it holds something else.
    """
    roster = json.loads(bean["Engines"])
    return {"engines": dict(roster["engines"]), "applications": dict(roster["applications"])}


def application_in(roster: Mapping[str, Mapping[str, Any]], given: str) -> str:
    """Return the id of an application that engines serve, by its id or the end of it (`0042`); empty if none does.

    Raises:
        UserError: several have ids that end so.
    """
    found = [id_ for id_ in roster["applications"] if is_named(id_, given)]
    if len(found) > 1:
        raise UserError(several(given, found))
    return found[0] if found else ""
