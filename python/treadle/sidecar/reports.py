"""What several engines say of themselves, as one status for the ResourceManager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from treadle.events import Fate
from treadle.sidecar.merge import LOST, Counts
from treadle.wire.answer import Status

T = TypeVar("T")

FIGURES: Final = ("attempts", "wait_mean_ms", "wait_p50_ms", "wait_p99_ms", "retries", "too_large")
"""What an engine measures of itself."""

REPORT_INTERVAL_MS: Final = 2000
"""Figures change no more often."""

_TEXT_MAX: Final = 100
"""Characters of a text that stands among the figures of an engine."""


_SAID_MAX: Final = 2
"""Warnings, and diagnostics, of each engine that come before any engine's third."""

Figure = Annotated[int, Field(ge=0, lt=2**53)]


class Own(BaseModel):
    """What of an engine's status is its own as one of several."""

    model_config = ConfigDict(strict=True, extra="ignore")

    figures: dict[str, Figure] = Field(default_factory=dict)
    given_up: list[tuple[int, str]] = Field(default_factory=list)


class Said(BaseModel):
    """What is used of the status of an engine."""

    model_config = ConfigDict(strict=True, extra="ignore")

    policy: str = ""
    overrides_guarantees: bool = False
    overrides_order: bool = False
    configuration: int = Field(default=-1, ge=-1, lt=2**31)
    error: str | None = None
    learned: str = ""
    waits_for: str = ""
    diagnostics: list[tuple[int, str]] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    engines: Own = Field(default_factory=Own)


class Report:
    """The latest status of an engine."""

    def __init__(self) -> None:
        self.said = Said()

    def take(self, text: str, *, fresh: bool) -> None:
        """Take the status of an answer, empty if nothing has changed; without ``fresh`` its indices mean nothing.

        Raises:
            ValueError: it is no status.
        """
        if len(text) > Status.BYTES_MAX:
            raise ValueError("the status is too long")
        if text:
            self.said = Said.model_validate_json(text)
        if not fresh:
            self.forget()

    def forget(self) -> None:
        """Take that indices mean something else from now on."""
        self.said.diagnostics, self.said.engines.given_up = [], []

    def shown(self, problem: str, counts: Counts, now_ms: int) -> dict[str, Any]:
        """Return what is shown of the engine: two texts, and figures."""
        useful_ms, wasted_ms, decided_ms = (
            us // 1000 for us in (counts.useful_us, counts.wasted_us, counts.decided_us)
        )
        return {
            "policy": self.said.policy[:_TEXT_MAX],
            "error": (problem or self.said.error or "")[:_TEXT_MAX],
            "busy": round(decided_ms / max(1, now_ms - counts.since_ms), 4),
            "useful_ms": useful_ms,
            "wasted_ms": wasted_ms,
            "empty_ms": decided_ms - useful_ms - wasted_ms,
            "decisions": counts.decisions,
            "transactions": counts.transactions,
            "conflicts": counts.conflicts,
            "committed": int(counts.fates[Fate.COMMITTED]),
            "rejected": int(counts.fates[LOST].sum()),
            "over_claim": int(counts.fates[Fate.CLAIM]),
            "changed": int(counts.fates[Fate.CHANGED]),
            "not_owner": int(counts.fates[Fate.NOT_OWNER]),
            "given_up": counts.given_up,
            "moved": counts.moved,
            "starts": counts.starts,
            **{name: self.said.engines.figures.get(name, 0) for name in FIGURES},
        }


def merge_into(status: Status, reports: Mapping[str, Report], problems: Mapping[str, str]) -> None:
    """Let a status say what engines say, each text with who says it.

    Args:
        status: the one for all
        reports: by engine, in order
        problems: why engines do not run, empty for those that do
    """
    said = {name: report.said for name, report in reports.items()}
    status.policy = "; ".join(_together((name, each.policy) for name, each in said.items()))
    status.overrides_guarantees = any(each.overrides_guarantees for each in said.values())
    status.overrides_order = any(each.overrides_order for each in said.values())
    status.configuration = min((each.configuration for each in said.values() if each.policy), default=0)
    errors = {name: problems[name] or each.error or "" for name, each in said.items()}
    status.engine_error = "; ".join(_together(errors.items()))
    status.learned = "; ".join(_together((name, each.learned) for name, each in said.items()))
    status.waits_for = "; ".join(_together((name, each.waits_for) for name, each in said.items()))
    warnings = _in_turns([[(name, text) for text in each.warnings] for name, each in said.items()])
    status.warnings = tuple(_together(warnings))
    status.diagnostics = tuple(_in_turns([each.diagnostics for each in said.values()]))


def _in_turns(lists: Sequence[Sequence[T]]) -> list[T]:
    """Return the first few of each list, then the others: the room of a status is for all engines."""
    return [each for part in (slice(_SAID_MAX), slice(_SAID_MAX, None)) for found in lists for each in found[part]]


def _together(texts: Iterable[tuple[str, str]]) -> Sequence[str]:
    """Return texts that are not empty with all who say them."""
    found: dict[str, list[str]] = {}
    for name, text in texts:
        if text:
            found.setdefault(text.replace("; ", ", "), []).append(name)
    return [f"{', '.join(names)}: {text}" for text, names in found.items()]
