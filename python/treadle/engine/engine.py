"""The decision engine: events in, proposals out; no sockets, files or clocks. Equal inputs give equal outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from traceback import clear_frames
from typing import Final

import numpy as np

from treadle.compiled.array_types import U8
from treadle.config.settings import Choice, Settings, default_settings, lost_queues, with_parts
from treadle.engine.several import Attempts, Divided, Guarantees
from treadle.engine.testing import small_cluster, small_events
from treadle.events import (
    NOTHING_HELD,
    Event,
    Fate,
    Held,
    LearnedState,
    Names,
    PlanRanks,
    PolicySwitch,
    Proposals,
    Queues,
    ResourceTypes,
    Samples,
    Snapshot,
    StageInputs,
    TaskEstimates,
    TaskInputs,
)
from treadle.model.carry import carry
from treadle.model.cluster import Cluster
from treadle.model.nodes import CLASSES_MAX, UNMET_NAMED_MAX, Unmet
from treadle.model.tables import ModelError
from treadle.policy.catalogue import register_parts
from treadle.policy.policy import Policy
from treadle.policy.state import Scratch
from treadle.policy.unserved import StarvationMonitor, held_back, too_large
from treadle.policy.user_parts import PartFailure, Watch, unwatched
from treadle.yarn.codes import application_id

register_parts()  # so that settings can name all built-in parts

HELD_EVERY_MS: Final = 1_000
"""Minimum interval between updates of the held applications, in milliseconds of the RM's time."""

SWITCHES_MAX: Final = 64
"""Maximum number of policy switches that are kept."""

OFFLINE_EVENTS: Final = (TaskEstimates, PlanRanks, StageInputs, TaskInputs, Samples, LearnedState)
"""Events from outside the frames, which follow a complete frame."""

WARM_UP: Final[tuple[Mapping[str, Choice], ...]] = (
    {"order": "srpt", "estimate": "hints"},
    {"order": "srpt", "estimate": "observed"},
    {"order": "fair_finish", "estimate": "time_on_test"},
    {
        "gate": ("pilots", {"max_concurrent_am_starts": 2}),
        "order": ("mlfq", {"size": "estimated_total"}),
        "estimate": "combined",
    },
)
"""Policies that together use every kernel."""


class Engine:
    """Maintains a model of the cluster and proposes containers. Not thread-safe."""

    _lost_queues: tuple[str, ...] | None = None
    """Warnings about unknown queues in the roster's selectors; None after a change of either."""

    def __init__(
        self, settings: Settings, good: Settings | None = None, watch: Watch = unwatched, *, tries_again: bool = False
    ) -> None:
        """Start with an empty model.

        Args:
            settings: the configuration
            good: settings whose policy takes over if a part fails; after that, or without it, the default policy does
            watch: runs the code of custom parts, and may interrupt it
            tries_again: whether one of several engines handles transactions and retries after conflicts itself;
                otherwise its caller does
        """
        self._tries_again = tries_again
        self.attempts: Attempts | None = None
        """Retry handling of one of several engines; None if the caller handles retries."""
        self._guarantees = Guarantees()
        self._starvation = StarvationMonitor()
        self._settings = settings
        self.running = settings
        """The current settings: the configured ones, or with another policy after a part failed."""
        self._good = good
        self._watch = watch
        self._sequence = self._stop_at = 0
        self._stop_reason = ""
        self.failure: PartFailure | None = None
        """Why the configured policy does not run; None if it does."""
        self._switches: list[PolicySwitch] = []
        self._policy = Policy(settings, self._fall_back, watch)
        self._names: list[Names] | None = None
        self._cluster: Cluster | None = None
        self._epoch = 0
        self._before: tuple[int, Cluster] | None = None
        """Epoch and model before a snapshot, until the whole snapshot has arrived."""
        self._cycles = 0
        """Number of cycles so far."""
        self.commits = True
        """Whether proposals of the latest answer may be committed; if not, only the CapacityScheduler places."""
        self._unmet: Unmet | None = None
        """Requests that no node satisfies; None after each change of the model, computed on demand."""
        self._held: tuple[Cluster, int, Held] | None = None
        """The cached held applications, with the model and time (ms) of the computation."""
        self._diagnostics: Sequence[tuple[int, str]] | None = None
        """Diagnostics of applications; None while ``_unmet`` is."""
        self._follow_roster()

    def _follow_roster(self) -> None:
        """Create or update attempt handling if this is one of several engines."""
        own = self._settings.engine if self._tries_again else None
        if own is None:
            self.attempts = None
        elif self.attempts is None:
            self.attempts = Attempts(own)
        else:
            self.attempts.engine = own
        if self._cluster is not None:
            self._cluster.learn = None if self.attempts is None else self.attempts.learn
            if self._settings.engine is None:
                self._guarantees.stop(self._cluster)

    def apply(self, events: Sequence[Event]) -> None:
        """Apply the events of a frame, or of a part of one.

        Rows are absolute and include the commits whose outcomes are among the same events. Columns are copied.

        Raises:
            ModelError: the events contradict the contract; a new snapshot is the remedy.
        """
        self._unmet = self._diagnostics = None
        for event in events:
            self._apply(event)
        if self._cluster is not None:
            self._cluster.sweep()

    def _apply(self, event: Event) -> None:
        match event:
            case Snapshot():
                if self._before is None and self._cluster is not None:
                    self._before = self._epoch, self._cluster
                self._epoch = event.epoch
                self._names, self._cluster = [], None
            case Names() if self._cluster is None and self._names is not None:
                self._names.append(event)
            case ResourceTypes() if self._cluster is None and self._names is not None:
                self._cluster = Cluster(self._names, event)
                self._cluster.cycle = self._cycles + 1
                self._cluster.learn = None if self.attempts is None else self.attempts.learn
            case Samples() if not self._policy.observes:
                pass  # reports of held requests have no reader while observing
            case PolicySwitch():
                self._stop_at, self._stop_reason = event.call, event.reason
            case _:
                if self._cluster is None:
                    raise ModelError(f"{type(event).__name__} before a snapshot's resource types")
                if self._before is not None and isinstance(event, OFFLINE_EVENTS):
                    self._carry(self._cluster)
                self._take(event, self._cluster)

    def _take(self, event: Event, cluster: Cluster) -> None:
        """Apply an event to the model and to the policy."""
        if isinstance(event, Samples | LearnedState):
            self._policy.apply(event, cluster)
            cluster.changed = True
            return
        observed = self._policy.observes and self._before is None
        cluster.groups.notes_effects = observed
        cluster.apply(event)
        if isinstance(event, Queues):
            self._lost_queues = None
        if observed:
            self._policy.observe(event, cluster)

    def _carry(self, cluster: Cluster) -> None:
        """Carry learned state over into the model of a complete snapshot."""
        if self._before is None:
            return
        (epoch, before), self._before = self._before, None
        carried = carry(before, cluster)
        if epoch == self._epoch:
            cluster.ended = before.apps.at[carried.ended]
        if self.attempts is not None:
            self.attempts.carry(carried.apps)
        self._policy.follow(before, cluster, carried)

    def decide(self, now_ms: int, limit: int, *, sequence: int, assume: bool = True) -> Proposals:
        """Return at most ``limit`` proposals, fewer if the settings limit them further.

        Args:
            now_ms: the RM's time
            limit: maximum number of proposals
            sequence: the number by which `Fates` refer to this answer
            assume: whether the proposals count as placed until their outcome is known; if not, nothing will be
                committed and no application is charged
        """
        cluster = self._cluster
        self._cycles += 1
        self.commits = assume
        self._unmet = self._diagnostics = None
        self._sequence, stop_at, self._stop_at = sequence, self._stop_at, 0
        if cluster is None:
            return Proposals.none()
        cluster.cycle, cluster.now_ms = self._cycles, now_ms
        self._carry(cluster)
        bound = cluster.classes.sync(cluster)
        cluster.rejections.release(now_ms)
        view = cluster.view()
        expired = cluster.assumed.expire(view, now_ms, self._settings.in_flight.timeout_ms)
        released = self._policy.holds.forget_ended(cluster, view, now_ms)
        due = self.attempts is not None and self.attempts.begin(
            cluster, view, now_ms, self._settings.limits.proposals_max
        )
        self._starvation.check(cluster, view, self._policy.latest_on(cluster), now_ms, commits=assume)
        in_backoff = cluster.rejections.last_backoff >= cluster.cycle
        if not (cluster.changed or bound or expired or released or in_backoff or due or self._policy.waits(now_ms)):
            cluster.cycle += 1
            return Proposals.none()
        if self._settings.engine is not None:
            self._guarantees.update_reserves(cluster, view, now_ms)
        limit = min(limit, self._settings.limits.proposals_max)
        made = self._policy.decide(cluster, view, now_ms, limit, stop_at, commits=assume)
        count = made.left
        cluster.changed = count >= limit or not assume
        divided = Divided(count, None)
        if self.attempts is not None:
            divided = self.attempts.divide(cluster, view, made, now_ms, full=count >= limit)
        if count:
            cluster.assumed.add(view, sequence, made)
            if not assume:
                cluster.assumed.give_up(view, sequence)
            elif divided.sent < count:
                kept = np.arange(divided.sent, count, dtype=np.int32)
                cluster.assumed.resolve(view, sequence, kept, np.full(len(kept), Fate.TRANSACTION, np.uint8))
                cluster.changed = True
        self._policy.note_use(cluster, view)
        cluster.cycle += 1
        table = made.proposals[: divided.sent]
        application, key, node = (np.ascontiguousarray(table[name]) for name in ("application", "key", "node"))
        return Proposals(application, key, node, divided.transaction)

    def inside(self) -> tuple[Cluster, Scratch | None] | None:
        """Return the model and its latest cycle's scratch data (None before one), valid until the next event."""
        if self._cluster is None:
            return None
        return self._cluster, self._policy.latest_on(self._cluster)

    def node_reasons(self, row: int) -> U8:
        """Return for each node why a request row cannot use it (`NodeReason` bits); 0 before a cycle on this model."""
        assert self._cluster is not None
        return self._policy.node_reasons(self._cluster, self._cluster.view(), row)

    def warm_up(self) -> int:
        """Compile every kernel, or load it from numba's cache, by scheduling a small synthetic cluster.

        This includes the kernels of other policies, so that a policy change needs no compilation. The engine itself
        stays unchanged. Returns the number of proposed containers.
        """
        policies = [self.running.policy, *(with_parts(default_settings(), chosen).policy for chosen in WARM_UP)]
        placed = 0
        for policy in policies:
            engine = Engine(replace(self.running, policy=policy))
            engine.apply(small_cluster())
            for sequence, news in enumerate(small_events(), 1):
                placed += len(engine.decide(1_000 * sequence, 16, sequence=sequence))
                engine.apply(news)
            engine.apply(small_cluster())
            placed += len(engine.decide(10_000, 1_024, sequence=10))  # more than fits: held requests may follow
            engine.node_reasons(0)
        return placed

    @classmethod
    def try_out(cls, settings: Settings, watch: Watch = unwatched) -> None:
        """Schedule small synthetic clusters: a common one, one without applications, one without nodes.

        Raises:
            PartFailure: a custom part failed.
        """
        common = [small_cluster(), *small_events()]
        for batches in (common, [small_cluster(applications=0)], [small_cluster(nodes=0)]):
            engine = cls(settings, None, watch)
            for sequence, events in enumerate(batches, 1):
                engine.apply(events)
                engine.decide(1_000 * sequence, 16, sequence=sequence)
            if engine.failure is not None:
                raise engine.failure

    def configure(self, settings: Settings) -> None:
        """Use other settings from now on. The model, proposals in flight and reservations stay.

        If a part of the new policy fails, the engine falls back to the current one.

        Raises:
            PartFailure: a part cannot be created; nothing has changed.
        """
        self._policy.configure(settings)
        self._good = self.running
        self._settings = self.running = settings
        self._lost_queues = None
        self.failure = None
        self._follow_roster()
        if self._cluster is not None:
            self._cluster.changed = True

    def _fall_back(self, failure: PartFailure) -> Settings:
        """Return settings with the last good policy, or the default one, and record the switch."""
        good, self._good = self._good or default_settings(), None
        failure.digest = self.running.digest
        if failure.stopped and self._stop_reason:
            # its settings at that time
            failure.args, failure.text = (self._stop_reason,), self._stop_reason.partition("): ")[2]
            self._stop_reason = ""
        self.running = replace(self._settings, policy=good.policy, source=good.source)
        self.failure = failure
        _forget_values(failure)
        switch = PolicySwitch(self._sequence, failure.call, self.running.policy.name(), str(failure))
        self._switches = [*self._switches, switch][-SWITCHES_MAX:]
        return self.running

    def switches(self) -> Sequence[PolicySwitch]:
        """Return the latest policy switches, oldest first."""
        return self._switches

    def warnings(self) -> Sequence[str]:
        """Return warnings for the administrator about deviations from the cluster's configuration."""
        warnings, cluster = self._settings.warnings, self._cluster
        if cluster is None:
            return warnings
        unmet = _constraint_warnings(cluster, self._unmet_now(cluster))
        return (*warnings, *cluster.queues.warnings, *self._queue_warnings(cluster), *self._policy.warnings(), *unmet)

    def stalled(self) -> Sequence[str]:
        """Return a line for each queue that has stayed below its entitlement, with the cause."""
        return self._starvation.conditions()

    def _queue_warnings(self, cluster: Cluster) -> tuple[str, ...]:
        """Return warnings about unknown queues in the roster's selectors, which match no application."""
        if self._lost_queues is None:
            at, roster = cluster.queues.at, self._settings.engines
            paths = {cluster.names.texts[path] for path in at["path"][at["exists"] == 1].tolist()} if roster else set()
            lost = lost_queues(roster, paths, "the cluster")
            self._lost_queues = tuple(f"{'.'.join(path)}: {text}" for path, text in lost)
        return self._lost_queues

    def diagnostics(self) -> Sequence[tuple[int, str]]:
        """Return diagnostics for applications, (index, text): why no node satisfies them."""
        cluster = self._cluster
        if cluster is None:
            return ()
        if self._diagnostics is None:
            large = too_large(cluster, cluster.view(), self._policy.latest_on(cluster), UNMET_NAMED_MAX)
            texts = large | dict(self._unmet_now(cluster).texts)
            # Last, so that they are cut first: these requests are served.
            misread = [each for each in sorted(cluster.classes.misread.items()) if each[0] not in texts]
            self._diagnostics = tuple(sorted([*sorted(texts.items()), *misread][:UNMET_NAMED_MAX]))
        return self._diagnostics

    def unmet(self) -> dict[int, str]:
        """Return why no usable node satisfies an application's node requirements, by index; a bounded number."""
        return {} if self._cluster is None else dict(self._unmet_now(self._cluster).texts)

    def _unmet_now(self, cluster: Cluster) -> Unmet:
        if self._unmet is None:
            self._unmet = cluster.classes.unmet(cluster)
        return self._unmet

    def contention(self) -> str:
        """Return a short summary of the contention of node classes; empty if no part uses it."""
        return "" if self._cluster is None else self._policy.contention(self._cluster)

    def waits_for(self) -> str:
        """Return why requests that could be served are deliberately held back; empty if none is."""
        waits = "" if self._cluster is None else self._policy.waits_for()
        left = "what is guaranteed to queues of other engines" if self._guarantees.reserves_any else ""
        return ", ".join(filter(None, (waits, left)))

    def gate_waits_for(self) -> str:
        """Return why the policy's gate holds requests back; empty if it holds back none."""
        return "" if self._cluster is None else self._policy.gate.waits_for

    def held(self) -> Held:
        """Return the deliberately held applications, at most a second old; none while the CapacityScheduler places."""
        cluster, scratch, found = self._cluster, self._policy.latest, self._held
        if cluster is None or scratch is None or not self.commits:
            self._held = None
            return NOTHING_HELD
        if found is None or found[0] is not cluster or not 0 <= cluster.now_ms - found[1] < HELD_EVERY_MS:
            found = self._held = cluster, cluster.now_ms, held_back(cluster.view(), scratch)
        return found[2]

    def samples(self) -> Samples | None:
        """Return the gate's samples and decisions since the last call; None if nothing has changed."""
        return None if self._cluster is None or self._before is not None else self._policy.samples(self._cluster)

    def learned(self) -> LearnedState | None:
        """Return the state with which the policy can continue in another process; None if it has none."""
        return None if self._cluster is None or self._before is not None else self._policy.learned(self._cluster)


def _forget_values(failure: PartFailure) -> None:
    """Clear the failed part's stack frames: the failure is kept, and their values may be large."""
    at: BaseException | None = failure
    seen = set[int]()
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        clear_frames(at.__traceback__)
        at = at.__cause__ or at.__context__


def _constraint_warnings(cluster: Cluster, unmet: Unmet) -> list[str]:
    """Return warnings for the administrator about requests that only some nodes satisfy."""
    classes, texts, lines = cluster.classes, cluster.names.texts, []
    waiting = [(application, why) for application, why in unmet.texts if cluster.apps.at["pending"][application] > 0]
    if waiting:
        application, why = waiting[0]
        others = len(waiting) - 1 + unmet.applications - len(unmet.texts)
        more = f" (and {others} more applications)" if others else ""
        row = cluster.apps.at[application]
        name = f"{application_id(int(row['cluster_timestamp']), int(row['id']))} ({texts[row['name']]!r})"
        lines.append(f"{name} waits: {why}{more}")
    if classes.left_out:
        lines.append(
            f"there are more than {CLASSES_MAX} different constraints: asks of {len(classes.left_out)} applications "
            "are left to the ResourceManager, or wait if tags say what they require"
        )
    return lines
