"""Merges the answers of several engines into one answer, in turns, and returns each engine the fates of its proposals.

An answer waits until all of it is sent or dropped. A proposal is dropped if another engine owns the application, it
exceeds a claim, or others changed the node since. Proposals for one application in one answer are a transaction.

The statuses of several engines are merged into one status for the ResourceManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from treadle.config.settings import GANG_MAX, RosterEngine
from treadle.events import CONFLICTS, Fate, Fates, Proposals
from treadle.sidecar.mirror import Mirror
from treadle.wire.answer import Answer, Status
from treadle.wire.frames import WireError

LOST: Final = [*CONFLICTS, Fate.NOT_OWNER]
"""Fates of proposals that other engines' changes made impossible since the engine looked."""

_UNBOUNDED: Final = 1 << 60

UNKNOWN: Final = 255
"""In place of a fate."""

SENT_MAX: Final = 256
"""Maximum number of answers without all fates; the ResourceManager commits two at a time at most."""

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
Room = dict[int, I64]
"""Resources that may still be used, shape (resources,), by the name of the partition."""


class Offer:
    """An answer of an engine, until each of its proposals has a fate."""

    def __init__(self, sequence: int, proposals: Proposals, decide_us: int, base: int) -> None:
        """Begin with nothing sent.

        Args:
            sequence: the engine's number of the answer
            proposals: the engine's proposals
            decide_us: time that the engine took to decide, µs
            base: the hub's count of frames when the engine looked
        """
        self.sequence, self.proposals, self.decide_us, self.base = sequence, proposals, decide_us, base
        self.sent = 0
        """Number of proposals, from the first on, whose turn has come."""
        self.fates: U8 = np.full(len(proposals), UNKNOWN, np.uint8)

    def piece(self, most: int) -> I32:
        """Return the rows of the next turn: at most so many, and the rest of the transaction that has begun."""
        end = min(self.sent + most, len(self.proposals))
        numbers = self.proposals.transaction
        if numbers is not None:
            end = int(np.searchsorted(numbers, numbers[end - 1], side="right"))
        return np.arange(self.sent, end, dtype=np.int32)

    def outcomes(self) -> tuple[int, int, int]:
        """Return how many of its transactions have succeeded and conflicted, and how many there are."""
        counts: dict[int, int] = {}
        bits = np.where(self.fates == Fate.COMMITTED, 1, np.where(np.isin(self.fates, LOST), 2, 0))
        for application, bit in zip(self.proposals.application.tolist(), bits.tolist(), strict=True):
            counts[application] = counts.get(application, 0) | bit
        succeeded = sum(each == 1 for each in counts.values())
        conflicted = sum(each >= 2 for each in counts.values())
        return succeeded, conflicted, len(counts)


def check_answer(answer: Answer, sequence: int) -> None:
    """Check an engine's answer.

    Raises:
        WireError: it is to another frame, or a transaction exceeds the maximum size.
    """
    if answer.sequence != sequence:
        raise WireError("sequence", f"{answer.sequence} instead of {sequence}")
    numbers = answer.proposals.transaction
    if numbers is not None and len(numbers):
        most = int(np.unique(numbers, return_counts=True)[1].max())
        if most > GANG_MAX:
            raise WireError("transaction", f"{most} proposals, at most {GANG_MAX}")


class Counts:
    """Counters that the hub keeps for an engine."""

    def __init__(self, now_ms: int) -> None:
        self.since_ms = now_ms
        self.decisions = self.transactions = self.conflicts = self.given_up = self.moved = self.starts = 0
        self.useful_us = self.wasted_us = self.decided_us = 0
        self.fates = np.zeros(256, np.int64)

    def take(self, offer: Offer) -> None:
        """Count an answer with all its fates."""
        succeeded, conflicted, every = offer.outcomes()
        every = max(1, every)
        self.decisions += 1
        self.transactions += succeeded
        self.conflicts += conflicted
        self.useful_us += offer.decide_us * succeeded // every
        self.wasted_us += offer.decide_us * conflicted // every
        self.decided_us += offer.decide_us
        np.add.at(self.fates, offer.fates, 1)


class Bidder:
    """An engine whose answers are merged with those of others."""

    def __init__(self, row: RosterEngine, now_ms: int) -> None:
        self.row = row
        self.offer: Offer | None = None
        """Its answer that is not sent as a whole."""
        self.fates: list[tuple[int, I32, U8]] = []
        """Fates that the engine has not received yet: sequence of the answer, positions, fates."""
        self.counts = Counts(now_ms)
        self.owned: set[int] = set()
        """The applications that it serves, by index."""

    def settle(self, offer: Offer, rows: I32, fates: U8) -> None:
        """Record the fates of some proposals of its answer."""
        offer.fates[rows] = fates
        self.fates.append((offer.sequence, rows, fates))
        if (offer.fates != UNKNOWN).all():
            self.counts.take(offer)

    def forget(self) -> None:
        """Drop the pending answer: it is about another state of the cluster."""
        offer, self.offer = self.offer, None
        if offer is not None:
            rows = np.arange(offer.sent, len(offer.proposals), dtype=np.int32)
            self.settle(offer, rows, np.full(len(rows), Fate.STALE_STATE, np.uint8))
        self.fates.clear()

    def unsent_fates(self) -> list[Fates]:
        """Return, once, the fates that it does not know."""
        fates, self.fates = self.fates, []
        if not fates:
            return []
        sequence = np.concatenate([np.full(len(rows), at, np.int64) for at, rows, _ in fates])
        position, fate = (np.concatenate([each[column] for each in fates]) for column in (1, 2))
        return [Fates(sequence, position, fate, np.zeros(len(fate), np.int64))]


class _Segment(NamedTuple):
    """A part of an answer to the ResourceManager: proposals of one engine."""

    bidder: Bidder
    offer: Offer
    rows: I32
    """Their positions in the engine's answer."""
    at: int
    """The position of the first one in the merged answer."""


class Merge:
    """Merges answers by turns, and gives each engine the fates of its proposals."""

    def __init__(self, mirror: Mirror) -> None:
        """Begin with nothing sent; claims are checked against ``mirror``."""
        self._mirror = mirror
        self._had_turn: set[str] = set()
        """Engines that had a turn in this round."""
        self._sent: dict[int, list[_Segment]] = {}
        self._changes: dict[int, tuple[str, int, int]] = {}
        """By node: the engine that committed last, its frame, and the frame of the last commit by any other."""
        self._coarse = True
        """Does any engine mind?"""

    def forget(self) -> None:
        """Drop all state that refers to indices: they mean something else from now on."""
        self._sent.clear()
        self._changes.clear()

    def changed(self, node: int, by: str, frame: int) -> None:
        """Record that an engine, given by name, committed a container on a node as of a frame."""
        if not self._coarse:
            return
        last, at, others = self._changes.get(node, (by, -1, -1))
        self._changes[node] = (by, frame, others if last == by else at)

    def fates(self, event: Fates, frame: int) -> None:
        """Pass the fates that the ResourceManager reports as of a frame on to the engines."""
        for sequence in np.unique(event.sequence).tolist():
            mine = event.sequence == sequence
            positions, fates = event.position[mine], event.fate[mine]
            segments = self._sent.get(sequence, [])
            for bidder, offer, rows, at in segments:
                inside = (positions >= at) & (positions < at + len(rows))
                own, own_fates = rows[positions[inside] - at], fates[inside].astype(np.uint8)
                new = offer.fates[own] == UNKNOWN
                bidder.settle(offer, own[new], own_fates[new])
                for node in offer.proposals.node[own[own_fates == Fate.COMMITTED]].tolist() if self._coarse else ():
                    self.changed(node, bidder.row.name, frame)
            if all((offer.fates[rows] != UNKNOWN).all() for _, offer, rows, _ in segments):
                self._sent.pop(sequence, None)

    def in_flight(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield sent proposals without a fate: engine, application, key, node."""
        for segments in self._sent.values():
            for bidder, offer, rows, _ in segments:
                left, made = rows[offer.fates[rows] == UNKNOWN], offer.proposals
                columns = (made.application[left], made.key[left], made.node[left])
                for application, key, node in zip(*(column.tolist() for column in columns), strict=True):
                    yield bidder.row.name, application, key, node

    def answer(self, bidders: Sequence[Bidder], sequence: int, limit: int, most: int, batch: int) -> Proposals:
        """Return the answer to send now.

        Args:
            bidders: the engines, in order
            sequence: the ResourceManager's number of the answer
            limit: number of proposals from which on no further transaction begins
            most: maximum number of proposals in the answer
            batch: number of proposals that one engine sends in a row, unless a transaction is longer
        """
        segments: list[_Segment] = []
        pending: dict[int, set[str]] = {}
        self._coarse = any(bidder.row.entry.conflicts == "coarse" for bidder in bidders)
        for name, _, _, node in self.in_flight() if self._coarse else ():
            pending.setdefault(node, set()).add(name)
        room, count = self._room([bidder for bidder in bidders if bidder.offer is not None]), 0
        while count < limit and (bidder := self._next(bidders)) is not None and (offer := bidder.offer) is not None:
            piece = offer.piece(min(batch, limit - count))
            if count + len(piece) > most:
                break
            self._had_turn.add(bidder.row.name)
            verdicts = self._judge(bidder, offer, piece, pending, room.get(bidder.row.name))
            kept = piece[verdicts == UNKNOWN]
            if len(kept) < len(piece):
                bidder.settle(offer, piece[verdicts != UNKNOWN], verdicts[verdicts != UNKNOWN])
            if len(kept):
                segments.append(_Segment(bidder, offer, kept, count))
                count += len(kept)
                for node in offer.proposals.node[kept].tolist() if self._coarse else ():
                    pending.setdefault(node, set()).add(bidder.row.name)
            offer.sent += len(piece)
            if offer.sent == len(offer.proposals):
                bidder.offer = None
        if segments:
            self._sent[sequence] = segments
        while len(self._sent) > SENT_MAX:
            del self._sent[next(iter(self._sent))]
        return _joined(segments)

    def _room(self, bidders: Sequence[Bidder]) -> dict[str, Room]:
        """Return the unused part of each partition for each engine with a claim."""
        rooms: dict[str, Room] = {}
        mirror, types = self._mirror, self._mirror.types
        for bidder in bidders:
            claim = bidder.row.entry.claim
            if claim >= 1.0 or types is None:
                continue
            mine = np.zeros(len(mirror.applications), bool)
            mine[list(bidder.owned)] = True
            used = mirror.used(mine)
            own = rooms[bidder.row.name] = {}
            for part, total in mirror.totals().items():
                left = np.floor(claim * total + 1e-6).astype(np.int64) - used.get(part, 0)
                own[part] = np.where(types.counted == 0, _UNBOUNDED, left)
        for name, application, ask, node in self.in_flight() if rooms else ():
            wanted = _wanted(mirror, application, ask, node)
            if name in rooms and wanted is not None and wanted[0] in rooms[name]:
                rooms[name][wanted[0]] -= wanted[1]
        return rooms

    def beyond_claims(self, bidders: Sequence[Bidder]) -> set[int]:
        """Return the applications with a request larger than the unused part of their engine's claim."""
        applications_beyond = set[int]()
        rooms = self._room(bidders)
        asks = self._mirror.requests.columns
        for bidder in bidders if rooms else ():
            for part, left in rooms.get(bidder.row.name, {}).items():
                beyond = (
                    (asks["count"] > 0) & (asks["capability"] > left).any(axis=1) & (asks["partition_name"] == part)
                )
                applications_beyond |= bidder.owned & set(asks["application"][beyond].tolist())
        return applications_beyond

    def _next(self, bidders: Sequence[Bidder]) -> Bidder | None:
        """Return the engine of the next turn: the first by precedence without a turn in this round."""
        waiting = [bidder for bidder in bidders if bidder.offer is not None]
        if all(bidder.row.name in self._had_turn for bidder in waiting):
            self._had_turn.clear()
        due = [bidder for bidder in waiting if bidder.row.name not in self._had_turn]
        return max(due, key=lambda bidder: bidder.row.entry.precedence, default=None)

    def _judge(
        self, bidder: Bidder, offer: Offer, piece: I32, pending: Mapping[int, set[str]], room: Room | None
    ) -> U8:
        """Return the fates of proposals that are not sent, `UNKNOWN` for the others."""
        made, name, entry = offer.proposals, bidder.row.name, bidder.row.entry
        applications, nodes = made.application[piece].tolist(), made.node[piece].tolist()
        fates: U8 = np.full(len(piece), UNKNOWN, np.uint8)
        for application in set(applications) - bidder.owned:
            fates[made.application[piece] == application] = Fate.NOT_OWNER
        if entry.conflicts == "coarse":
            for at, node in enumerate(nodes):
                last, frame, others = self._changes.get(node, (name, -1, -1))
                changed = (others if last == name else frame) > offer.base or pending.get(node, set()) - {name}
                fates[at] = Fate.CHANGED if changed and fates[at] == UNKNOWN else fates[at]
        if room is not None:
            for at in np.flatnonzero(fates == UNKNOWN).tolist():
                wanted = _wanted(self._mirror, applications[at], int(made.key[piece[at]]), nodes[at])
                if wanted is None or wanted[0] not in room:
                    continue  # the ResourceManager reports the error
                left = room[wanted[0]]
                if (wanted[1] > left).any():
                    fates[at] = Fate.CLAIM
                else:
                    left -= wanted[1]
        if made.transaction is not None and (fates != UNKNOWN).any():
            numbers = made.transaction[piece]
            broken = np.isin(numbers, numbers[fates != UNKNOWN])
            fates[broken & (fates == UNKNOWN)] = Fate.TRANSACTION
        return fates


def _joined(segments: Sequence[_Segment]) -> Proposals:
    """Return the proposals of segments, with transactions only if any has more than one."""
    if not segments:
        return Proposals.none()
    columns, numbers, next_number, whole = [], [], 0, False
    for _, offer, rows, _ in segments:
        made = offer.proposals
        columns.append((made.application[rows], made.key[rows], made.node[rows]))
        own = (
            np.arange(len(rows))
            if made.transaction is None
            else np.unique(made.transaction[rows], return_inverse=True)[1]
        )
        numbers.append((own + next_number).astype(np.int32))
        next_number = int(numbers[-1][-1]) + 1
        whole |= len(np.unique(own)) < len(own)
    application, key, node = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Proposals(application, key, node, np.concatenate(numbers) if whole else None)


def _wanted(mirror: Mirror, application: int, ask: int, node: int) -> tuple[int, I64] | None:
    """Return the partition of a node and the resources of a request key; None if either is not known."""
    at = mirror.requests.find(application, ask)
    if at is None or not 0 <= node < len(mirror.nodes):
        return None
    return int(mirror.nodes.columns["partition_name"][node]), mirror.requests.columns["capability"][at]


T = TypeVar("T")

FIGURES: Final = ("attempts", "wait_mean_ms", "wait_p50_ms", "wait_p99_ms", "retries", "too_large")
"""An engine's own measurements."""

REPORT_INTERVAL_MS: Final = 2000
"""Figures change no more often."""

_TEXT_MAX: Final = 100
"""Maximum length of a text among the figures of an engine."""


_SAID_MAX: Final = 2
"""Warnings, and diagnostics, of each engine that come before any engine's third."""

Figure = Annotated[int, Field(ge=0, lt=2**53)]


class EngineFigures(BaseModel):
    """The fields of an engine's status that only one of several engines has."""

    model_config = ConfigDict(strict=True, extra="ignore")

    figures: dict[str, Figure] = Field(default_factory=dict)
    given_up: list[tuple[int, str]] = Field(default_factory=list)


class EngineStatus(BaseModel):
    """The fields of an engine's status that the hub uses."""

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
    engines: EngineFigures = Field(default_factory=EngineFigures)


class Report:
    """The latest status of an engine."""

    def __init__(self) -> None:
        self.status = EngineStatus()

    def take(self, text: str, *, fresh: bool) -> None:
        """Read the status of an answer, empty if it has not changed; without ``fresh`` its indices mean nothing.

        Raises:
            ValueError: the text is not a status.
        """
        if len(text) > Status.BYTES_MAX:
            raise ValueError("the status is too long")
        if text:
            self.status = EngineStatus.model_validate_json(text)
        if not fresh:
            self.forget()

    def forget(self) -> None:
        """Drop all state that refers to indices: they mean something else from now on."""
        self.status.diagnostics, self.status.engines.given_up = [], []

    def shown(self, problem: str, counts: Counts, now_ms: int) -> dict[str, Any]:
        """Return the engine's status for display: two texts, and figures."""
        useful_ms, wasted_ms, decided_ms = (
            us // 1000 for us in (counts.useful_us, counts.wasted_us, counts.decided_us)
        )
        return {
            "policy": self.status.policy[:_TEXT_MAX],
            "error": (problem or self.status.error or "")[:_TEXT_MAX],
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
            **{name: self.status.engines.figures.get(name, 0) for name in FIGURES},
        }


def merge_into(status: Status, reports: Mapping[str, Report], problems: Mapping[str, str]) -> None:
    """Merge the engines' statuses into one, each text with the names of its engines.

    Args:
        status: the one for all
        reports: by engine, in order
        problems: why engines do not run, empty for those that do
    """
    statuses = {name: report.status for name, report in reports.items()}
    status.policy = "; ".join(_together((name, each.policy) for name, each in statuses.items()))
    status.overrides_guarantees = any(each.overrides_guarantees for each in statuses.values())
    status.overrides_order = any(each.overrides_order for each in statuses.values())
    status.configuration = min((each.configuration for each in statuses.values() if each.policy), default=0)
    errors = {name: problems[name] or each.error or "" for name, each in statuses.items()}
    status.engine_error = "; ".join(_together(errors.items()))
    status.learned = "; ".join(_together((name, each.learned) for name, each in statuses.items()))
    status.waits_for = "; ".join(_together((name, each.waits_for) for name, each in statuses.items()))
    warnings = _in_turns([[(name, text) for text in each.warnings] for name, each in statuses.items()])
    status.warnings = tuple(_together(warnings))
    status.diagnostics = tuple(_in_turns([each.diagnostics for each in statuses.values()]))


def _in_turns(lists: Sequence[Sequence[T]]) -> list[T]:
    """Return the first few of each list, then the others: the room of a status is for all engines."""
    return [each for part in (slice(_SAID_MAX), slice(_SAID_MAX, None)) for found in lists for each in found[part]]


def _together(texts: Iterable[tuple[str, str]]) -> Sequence[str]:
    """Return the texts that are not empty, each with the names of its engines."""
    engines_by_text: dict[str, list[str]] = {}
    for name, text in texts:
        if text:
            engines_by_text.setdefault(text.replace("; ", ", "), []).append(name)
    return [f"{', '.join(names)}: {text}" for text, names in engines_by_text.items()]
