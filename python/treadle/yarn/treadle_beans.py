"""Treadle's beans in a ResourceManager: whether Treadle schedules, and the figures of each engine."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from treadle.errors import UserError
from treadle.yarn.codes import is_named, several

_PLACED: Final = ("applications", "committed", "rejected", "transactions", "conflicts", "decisions")
_TRIED: Final = ("attempts", "wait_mean_ms", "wait_p50_ms", "wait_p99_ms", "retries", "given_up", "moved", "starts")
_REFUSED: Final = ("too_large", "over_claim", "changed", "not_owner")
_TIMES: Final = ("useful_ms", "wasted_ms", "empty_ms")


def why_not(bean: Mapping[str, Any]) -> str:
    """Return why Treadle does not schedule, from its bean; empty if it does."""
    if bean.get("Schedules") == 1:
        return ""
    if "Schedules" not in bean:
        return "the ResourceManager does not report it; use the jar of this version"
    mode = str(bean.get("Mode") or "unknown")
    if mode != "enforce":
        return f"the mode is {mode}"
    if bean.get("Refusal"):
        return str(bean["Refusal"])
    return f"no engine holds the lease; {_error(bean)}"


def silence(bean: Mapping[str, Any]) -> str:
    """Return a sentence if no engine answers although one should, such as after a stop; else empty."""
    expected = bean.get("Mode") in ("enforce", "observe_only") and not bean.get("Refusal")
    return f"no engine answers: {_error(bean)}" if expected and bean.get("LeaseHeld") == 0 else ""


def _error(bean: Mapping[str, Any]) -> str:
    if bean.get("LastError") or not bean.get("SidecarStarts"):
        return str(bean.get("LastError") or "no error is reported")
    return "the sidecar has stopped answering" if bean.get("LeaseFlips") else "the sidecar is starting"


def policy_in(bean: Mapping[str, Any]) -> str:
    """Return the name of the current policy, with several engines that of the first; empty if there is none."""
    text = str(bean.get("Policy") or "")
    return text.partition(": ")[2].partition("; ")[0] if bean.get("Engines") else text


def engines_in(bean: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the figures of each of several engines in the bean Treadle; empty for one engine.

    Raises:
        UserError: it holds something else.
    """
    try:
        engines = json.loads(bean.get("Engines") or '{"engines": {}}')["engines"]
        return [_figures(str(name), each) for name, each in engines.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError("the bean Treadle holds no figures of engines; use jar and wheel of one release") from error


def _figures(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    counts = {each: int(values.get(each, 0)) for each in (*_PLACED, *_TRIED, *_REFUSED, *_TIMES)}
    transactions, conflicts = counts["transactions"], counts["conflicts"]
    return {
        "engine": name,
        "entry": str(values.get("entry", "")),
        "lives": values.get("alive") is True,
        "has_answered": counts["starts"] > 0,
        "served_by": str(values.get("served_by", "")),
        "policy": str(values.get("policy", "")),
        "busy": float(values.get("busy", 0.0)),
        **counts,
        "conflict_fraction": round(conflicts / transactions, 4) if transactions else None,
        "last_error": str(values.get("error", "")),
    }


def application_in(owners: Collection[str], given: str) -> str:
    """Return the ID of an application served by engines, by its ID or the end of it (`0042`); empty if there is none.

    Raises:
        UserError: several have an ID with this end.
    """
    matches = [id_ for id_ in owners if is_named(id_, given)]
    if len(matches) > 1:
        raise UserError(several(given, matches))
    return matches[0] if matches else ""
