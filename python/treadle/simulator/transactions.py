"""How the simulated RM commits the answer of one of several engines: who owns what, and what has changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from treadle.compiled.array_types import I32, I64, U8
from treadle.config.settings import GANG_MAX, RosterEngine
from treadle.constraints.choices import gang_of
from treadle.events import Fate, Fates
from treadle.proposals import Proposals
from treadle.sidecar.roster import Roster
from treadle.simulator.build import Built
from treadle.simulator.cluster.commit import OVER_CLAIM, TO_JUDGE, commit_transactions
from treadle.simulator.cluster.state import SimulationParameters, State
from treadle.simulator.invariants import InvariantError
from treadle.simulator.resource_manager import SimulatedRM

CONFLICTS: Final = np.array([Fate.CHANGED, Fate.NODE_FULL, Fate.NODE_STALE, Fate.UNKNOWN_NODE, Fate.QUEUE_MAXIMUM])
"""Fates of what could have been committed when its engine looked, and cannot any more."""

UNBOUNDED: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one application's transaction."""

    placed: int
    conflict: bool
    not_owner: bool = False
    over_claim: bool = False
    too_large: bool = False


class Transactions:
    """The RM's record of who has committed where, by engine."""

    def __init__(self, rm: SimulatedRM, built: Built, roster: Roster, *, check: bool) -> None:
        self._rm, self._total, self._roster, self._check = rm, built.total, roster, check
        self._gangs = [gang_of(job.tags) for job in built.workload.jobs]
        self._raised: I64 = np.zeros(len(built.node_names), np.int64)
        """The sequence number of each node: containers that were committed on it."""
        self._own: I64 = np.zeros((len(roster.engines), len(built.node_names)), np.int64)

    def base(self, engine: int) -> I64:
        """Return by how much others than an engine have raised each node's sequence number."""
        raised: I64 = self._raised - self._own[engine]
        return raised

    def commit(
        self, engine: int, made: Proposals, sequence: int, base: I64, asked: Mapping[int, int]
    ) -> tuple[Fates, dict[int, Verdict]]:
        """Commit what may be committed of an answer.

        Args:
            engine: whose it is, by its place in the roster
            made: the answer
            sequence: what the fates call it
            base: of the frame that it was decided on
            asked: how many containers each application that it is about asked for then

        Returns:
            the fates in the answer's order, and the outcome of each application of ``asked``
        """
        row = self._roster.engines[engine]
        order = np.argsort(made.application, kind="stable")
        rows = _in_order(made, order)
        apps, first = np.unique(rows[0], return_index=True)
        bounds: I32 = np.append(first, len(made)).astype(np.int32)
        sizes = np.diff(bounds)
        needs = [self._needed(row, app, asked.get(app, 0)) for app in apps.tolist()]
        whole = np.array([need > 0 for need in needs], np.uint8)
        fates = np.full(len(made), TO_JUDGE, np.uint8)
        since: U8 = (self.base(engine)[rows[2]] != base[rows[2]]).astype(np.uint8)
        if row.entry.conflicts == "coarse":
            fates[since == 1] = Fate.CHANGED
        too_large = {}
        for at, app in enumerate(apps.tolist()):
            own = slice(bounds[at], bounds[at + 1])
            if self._roster.owner(app) != row.name:
                fates[own] = Fate.NOT_OWNER
            elif whole[at] and (sizes[at] < needs[at] or sizes[at] > GANG_MAX):
                fates[own] = Fate.TRANSACTION
                too_large[app] = max(int(sizes[at]), needs[at]) > GANG_MAX
        room = self._room(row)

        def committer(state: State, parameters: SimulationParameters, codes: U8, numbers: I64) -> None:
            in_order = np.zeros(len(made), np.int64)
            commit_transactions(state, parameters, rows, since, bounds, whole, room, fates, in_order)
            codes[order] = np.where(fates == OVER_CLAIM, Fate.QUEUE_MAXIMUM, fates)
            numbers[order] = in_order

        reported = self._rm.commit(made, sequence, engine, committer)
        placed = fates == Fate.COMMITTED
        np.add.at(self._raised, rows[2][placed], 1)
        np.add.at(self._own[engine], rows[2][placed], 1)
        if self._check:
            self._must_hold(row, apps, bounds, whole, placed)
        found = dict.fromkeys(asked, Verdict(0, conflict=False))
        for at, app in enumerate(apps.tolist()):
            own_fates = fates[bounds[at] : bounds[at + 1]]
            found[app] = Verdict(
                int(np.count_nonzero(own_fates == Fate.COMMITTED)),
                bool(np.isin(own_fates, CONFLICTS).any()),
                bool(own_fates[0] == Fate.NOT_OWNER),
                bool((own_fates == OVER_CLAIM).any()),
                too_large.get(app, False),
            )
        return reported, found

    def _needed(self, row: RosterEngine, app: int, asked: int) -> int:
        """Return how many containers an application's transaction must have to be whole; 0 if it need not be."""
        state = self._rm.state.apps[app]
        if state["awaiting_am"]:
            return 0
        needed = asked if row.entry.transactions == "gang" else 0
        held = int(state["containers"]) - (state["master"] >= 0)
        return max(needed, self._gangs[app] - held)

    def _room(self, row: RosterEngine) -> I64:
        """Return what an engine may still use of each resource."""
        if row.entry.claim >= 1.0:
            return np.full(len(self._total), UNBOUNDED, np.int64)
        room: I64 = np.floor(row.entry.claim * self._total + 1e-6).astype(np.int64) - self._used(row)
        return room

    def _used(self, row: RosterEngine) -> I64:
        used: I64 = self._rm.state.app_used[list(self._roster.owned_by(row.name))].sum(axis=0)
        return used

    def _must_hold(self, row: RosterEngine, apps: I32, bounds: I32, whole: U8, placed: np.ndarray) -> None:
        """Raise `InvariantError` if a commit broke what several engines promise."""
        for at, app in enumerate(apps.tolist()):
            own = placed[bounds[at] : bounds[at + 1]]
            if own.any() and self._roster.owner(app) != row.name:
                raise InvariantError(f"{row.name} placed something for an application of {self._roster.owner(app)}")
            if whole[at] and own.any() and not own.all():
                raise InvariantError(f"a gang of application {app} was committed in part")
        if row.entry.claim < 1.0 and placed.any():
            counted = self._rm.state.counted == 1
            over = self._used(row)[counted] > np.floor(row.entry.claim * self._total[counted] + 1e-6)
            if over.any():
                raise InvariantError(f"{row.name} uses more than its claim")


def _in_order(made: Proposals, order: Sequence[int] | np.ndarray) -> tuple[I32, I32, I32]:
    return made.application[order], made.key[order], made.node[order]
