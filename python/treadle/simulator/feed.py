"""The simulated RM's frames for engines: first a snapshot, then changes, as the shim sends them; and plans of jobs.

Readers are independent: each receives a row once, ordered by the row's first change since that reader's last read. Jobs
are planned when they are submitted, and their plans followed as tasks start and end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64, Records
from treadle.config.settings import Plans, Settings
from treadle.constraints import conditions
from treadle.dag import Dag
from treadle.events import ApplicationState, ContainerEvent, Event, QueueState, Replaces, filled
from treadle.planner.online import (
    NO_PLAN,
    Machines,
    PlannedJob,
    PlanSource,
    Progress,
    critical_path_order,
    machines_of,
)
from treadle.simulator.build import Bound, Built, StageOrder
from treadle.simulator.cluster import tables
from treadle.simulator.cluster.tables import AppState, ContainerState, RowKind, State
from treadle.simulator.scenario import ScenarioModel
from treadle.workload.job import Framework, Workload

NOTHING: Final = Progress(0, 0, 0, 0, 0)
SUBMITTED: Final = {int(AppState.PENDING), int(AppState.STARTING), int(AppState.RUNNING)}


def plans_of(scenario: ScenarioModel, workload: Workload, settings: Settings) -> FollowedPlans | None:
    """Return the plans of a simulation's jobs; None if no part uses them."""
    plans = settings.plans
    if plans.schedules == 0 and scenario.frameworks.tez_order == "natural":
        return None
    source = PlanSource(planned_machines(scenario, settings), plans.schedules, plans.plans_cached_max)
    return FollowedPlans(source, workload, [job.dag for job in workload.jobs], plans, scenario)


def planned_machines(scenario: ScenarioModel, settings: Settings) -> Machines:
    """Return the machines that jobs are planned on.

    Overbooked resources have their overbooked capacity; other unchecked resources are omitted.
    """
    times = {resource.name: 1.0 for resource in scenario.cluster.resources if resource.counted}
    overbook: Mapping[str, float] = getattr(settings.policy.fit.parameters, "overbook", {})
    times = {**overbook, **times}
    groups = [
        Machines({name: times[name] * amount for name, amount in nodes.resources.items() if name in times}, nodes.count)
        for nodes in scenario.cluster.nodes
    ]
    return machines_of(groups, settings.plans.cluster_fraction)


@dataclass(slots=True)
class _Followed:
    """A job with a plan."""

    job: PlannedJob
    stages: tuple[int, ...]
    """IDs of the stages with tasks."""
    rows: I64
    """Their rows."""
    retries: list[int]
    """For each the row that requests its failed tasks, or the stage's own row."""
    seen: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By stage, number of tasks, started tasks and ended tasks at the last check."""
    sent: dict[int, float] = field(default_factory=dict)
    """The last score sent, by row."""
    silent: bool = False
    """The plan has ended, and that was sent."""

    def progress(self, state: State) -> dict[int, Progress]:
        """Return the progress of all stages; the number of tasks is unknown until the application requests them."""
        rows = state.rows[self.rows]
        now = int(state.clock[tables.NOW])
        progress = dict.fromkeys(self.job.duration_ms, NOTHING)
        tasks = np.where(rows["released"] > 0, rows["tasks"], -1)
        oldest = np.where(rows["began_ms"] >= 0, now - rows["began_ms"], 0)
        columns = (tasks, rows["held"] + rows["done"], rows["done"], rows["ended_ms"], oldest)
        for stage, each in zip(self.stages, zip(*(column.tolist() for column in columns), strict=True), strict=True):
            progress[stage] = Progress(*each)
        return progress


class FollowedPlans:
    """The plans of all jobs."""

    def __init__(
        self,
        source: PlanSource,
        workload: Workload,
        dags: Sequence[Dag | None],
        settings: Plans,
        scenario: ScenarioModel,
    ) -> None:
        """Create it without plans; ``dags`` are the assumed DAGs of the jobs, None for unknown ones."""
        self.source = source
        jobs = zip(workload.jobs, dags, strict=True)
        self._dags = [dag if job.framework is Framework.TEZ else None for job, dag in jobs]
        self._settings = settings
        self._order = scenario.frameworks.tez_order
        self._followed: dict[int, _Followed] = {}
        self._known_ms: I64 | None = None

    def orders(self) -> Sequence[StageOrder | None] | None:
        """Return the priority order of each job's stages; None for Tez's own order."""
        if self._order == "natural":
            return None
        return [None if dag is None else self._order_of(dag) for dag in self._dags]

    def _order_of(self, dag: Dag) -> StageOrder | None:
        if self._order == "critical_path":
            return critical_path_order(dag)
        plan = self.source.plan(dag)
        return None if plan is None else plan.stage_order()

    def believe(self, state: State, means: I64, deviations: I64) -> tuple[I64, I64]:
        """Return the assumed task durations by row, given the true ones; stores them as assumptions change."""
        means, deviations = means.copy(), deviations.copy()
        for app, dag in enumerate(self._dags):
            rows = stage_rows(state, app)
            if dag is None:
                means[rows] = deviations[rows] = -1
                continue
            stages = [stage for stage in dag.stages if stage.tasks]
            means[rows] = [stage.duration_ms for stage in stages]
        self._known_ms = means
        return means, deviations

    def events(self, state: State, apps: I32, rows: I32) -> list[Event]:
        """Return the changed scores; checks the applications and rows of the next frame."""
        if self._settings.schedules == 0 or not self._settings.scores:
            return []
        sent: list[tuple[int, int, float]] = []
        for app in np.union1d(apps, state.rows["app"][rows]).tolist():
            if self._dags[app] is not None and int(state.apps["state"][app]) in SUBMITTED:
                sent += self._scores(state, app)
        if not sent:
            return []
        application, key, score = zip(*sent, strict=True)
        return [filled(events.PlanRanks, len(score), application=application, key=key, score=score)]

    def _scores(self, state: State, app: int) -> list[tuple[int, int, float]]:
        """Return (application, key, score) for the keys of a job whose score differs from the last one sent."""
        followed = self._followed.get(app)
        if followed is None:
            followed = self._followed[app] = self._begin(state, app)
        if followed.silent:
            return []
        job = followed.job
        progress = followed.progress(state)
        seen: dict[int, tuple[int, ...]] = {stage: each[:3] for stage, each in progress.items()}
        if seen == followed.seen:
            return []
        followed.seen = seen
        if job.update(progress) and self._known_ms is not None:
            self._known_ms[followed.rows] = [round(job.duration_ms[stage]) for stage in followed.stages]
        followed.silent = job.plan is None
        rows = []
        scores = job.scores(progress, relative=self._settings.relative_scores)
        for stage, row, retries in zip(followed.stages, followed.rows.tolist(), followed.retries, strict=True):
            sent = [(row, scores[stage])]
            if retries != row:  # failed tasks, needed at once
                sent.append((retries, 1.0 if job.plan is not None else NO_PLAN))
            for each, score in sent:
                if followed.sent.get(each) != score:
                    followed.sent[each] = score
                    rows.append((app, int(state.rows["key"][each]), score))
        return rows

    def _begin(self, state: State, app: int) -> _Followed:
        """Plan a job."""
        dag = self._dags[app]
        assert dag is not None
        job = PlannedJob(self.source.plan, dag, self._settings.replan_factor, self._settings.replans_max)
        rows = stage_rows(state, app)
        stages = tuple(stage.id for stage in dag.stages if stage.tasks)
        return _Followed(job, stages, rows, state.rows["retries"][rows].tolist())


def stage_rows(state: State, app: int) -> I64:
    """Return the rows of a job's stages that have tasks, in the DAG's order."""
    first, count = int(state.apps["first_row"][app]), int(state.apps["rows"][app])
    kinds = state.rows["kind"][first : first + count]
    return first + np.flatnonzero(np.isin(kinds, (RowKind.TASKS, RowKind.INSIDE)))


class Unread(NamedTuple):
    """Unread places of a reader, in order of their change; in a snapshot all places, in the tables' order."""

    nodes: I32
    apps: I32
    used_only: I32
    """The applications with other changes than usage."""
    rows: I32
    queues: I32
    """In their order."""
    container_steps: Records


def _newer(state: State, since: int) -> Unread:
    nodes, apps, rows, queues = by_table(state, changed(state, since))
    return Unread(
        nodes=nodes,
        apps=apps,
        used_only=apps[state.apps["own_version"][apps] > since],
        rows=rows,
        queues=np.sort(queues),
        container_steps=state.container_steps[: int(state.clock[tables.CONTAINER_STEPS])].copy(),
    )


def by_table(state: State, subjects: I32) -> list[I32]:
    """Split places in `State.versions` into nodes, applications, rows and queues, each in the given order."""
    firsts = np.cumsum([0, len(state.nodes), len(state.apps), len(state.rows)]).tolist()
    table = np.searchsorted(firsts[1:], subjects, side="right")
    return [subjects[table == at] - first for at, first in enumerate(firsts)]


def changed(state: State, since: int) -> I32:
    """Return the places in `State.versions` changed after ``since``, in order of their first change since then.

    Changes too old for `State.latest` have no known order: then they come in the tables' order.
    """
    newest, size = int(state.clock[tables.VERSION]), len(state.latest)
    if newest - since > size:
        return np.flatnonzero(state.versions > since).astype(np.int32)
    subjects: I32 = state.latest[np.arange(since + 1, newest + 1) % size]
    if since < state.clock[tables.READ]:  # another reader has read since: places changed again have two versions
        first = np.unique(subjects, return_index=True)[1]
        return subjects[np.sort(first)]
    return subjects


def _everything(state: State) -> Unread:
    apps = np.flatnonzero((state.apps["state"] != AppState.AHEAD) & (state.apps["state"] != AppState.FINISHED))
    return Unread(
        nodes=np.arange(len(state.nodes), dtype=np.int32),
        apps=apps.astype(np.int32),
        used_only=apps.astype(np.int32),
        rows=np.flatnonzero(state.rows["count"] > 0).astype(np.int32),
        queues=np.arange(len(state.queues), dtype=np.int32),
        container_steps=_alive(state, np.flatnonzero(state.containers["state"] != ContainerState.FREE)),
    )


def _alive(state: State, containers: I64) -> Records:
    """Return the last step of each container of the RM, oldest first."""
    found = state.containers[containers]
    found = found[np.argsort(found["number"])]
    steps = np.zeros(len(found), tables.CONTAINER_STEP)
    for name in ("app", "row", "node", "created_ms"):
        steps[name] = found[name]
    steps["container"] = found["number"]
    steps["time_ms"] = found["created_ms"]
    steps["am"] = state.rows["kind"][found["row"]] == RowKind.MASTER
    steps["event"] = np.where(steps["am"], ContainerEvent.LAUNCHED, ContainerEvent.ALLOCATED)
    return steps


FINISHED: Final = int(AppState.FINISHED)
"""As a plain number: an enum lookup costs as much as a comparison of small arrays."""

UNBOUNDED: Final = 1 << 50
"""The reported headroom: queue maxima are exact, and user limits do not exist here."""

NOT_SENT: Final = 255
"""The state of a node that no frame has brought yet."""


class Feed:
    """Events for one engine: rows of the tables that have changed since its last read.

    Names and the nodes and localities sent are the engine's own state; the tables are shared.
    """

    def __init__(self, built: Built, settings: dict[str, str], oracle: bool, plans: FollowedPlans | None) -> None:
        self._version = -1
        """The newest version read; -1: the next read is a snapshot."""
        self._plans = plans
        self._built = built
        self._settings = settings
        self._oracle = oracle
        self._texts: dict[str, int] = {"": 0}
        self._sent = 0
        self._means: I64 | None = None
        self._deviations: I64 | None = None
        rows = built.state.rows
        self._is_stage = np.isin(rows["kind"], (RowKind.TASKS, RowKind.INSIDE))
        self._places_sent = np.zeros(len(rows), np.int64)
        """The version in which each row's localities were last sent."""
        racks = np.array([self._text(name) for name in built.rack_names], np.int32)
        self._node_state = np.full(len(built.node_names), NOT_SENT, np.uint8)
        """The node states last sent: a node whose state changes has its attributes sent again."""
        self._node_names = np.array([self._text(name) for name in built.node_names], np.int32)
        self._rack_names = racks
        self._paths = np.array([self._text(path) for path in built.tree.paths], np.int32)
        self._orders = np.array([self._text(queue.ordering_policy) for queue in built.tree.configured], np.int32)
        self._where = np.concatenate([self._node_names, racks])
        self._bounds = np.array([self._text(_constraint(bound)) for bound in built.bounds], np.int32)
        self._of_asks = np.array([bool(bound.require or bound.prefer) for bound in built.bounds], bool)
        self._bound_sent = np.zeros(len(rows), bool)
        """Rows whose requirements were sent and that still have requests."""

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def frame(self, state: State, fates: events.Fates | None) -> list[Event]:
        """Return the next frame's events, with all container steps of the tables, which the caller clears."""
        snapshot = self._version < 0
        unread = _everything(state) if snapshot else _newer(state, self._version)
        state.clock[tables.READ] = self._version = int(state.clock[tables.VERSION])
        body: list[Event] = [self._queues()] if snapshot else []
        body += self._limits(state, unread.queues)
        body += self._nodes(state, unread.nodes)
        if self._plans is not None:
            body += self._plans.events(state, unread.apps, unread.rows)
        body += self._applications(state, unread)
        body += self._requests(state, unread.rows)
        body += self._steps(state, unread)
        if fates is not None and len(fates.fate) and not snapshot:
            body.append(fates)
        head: list[Event] = [events.Snapshot(1)] if snapshot else []
        if self._sent < len(self._texts):
            head.append(events.Names(tuple(self._texts)[self._sent :]))
            self._sent = len(self._texts)
        if snapshot:
            head += [self._types(), events.Settings(self._settings)]
        return head + body

    def _types(self) -> events.ResourceTypes:
        built = self._built
        kinds = len(built.resources)
        units = tuple("Mi" if name == "memory-mb" else "" for name in built.resources)
        largest = np.full(kinds, 1 << 40, np.int64)
        return events.ResourceTypes(
            names=built.resources,
            units=units,
            counted=built.state.counted,
            minimum=np.zeros(kinds, np.int64),
            maximum=largest,
        )

    def _queues(self) -> events.Queues:
        tree = self._built.tree
        count = len(tree.paths)
        leaf = np.zeros(count, np.uint8)
        leaf[list(tree.leaves)] = 1
        return filled(
            events.Queues,
            count,
            queue=np.arange(count),
            parent=tree.parents,
            path_name=self._paths,
            state=int(QueueState.RUNNING),
            leaf=leaf,
            ordering_policy_name=self._orders,
            size_based_weight=[queue.size_based_weight for queue in tree.configured],
            priority=[queue.priority for queue in tree.configured],
        )

    def _limits(self, state: State, queue: I32) -> list[Event]:
        tree = self._built.tree
        if not len(queue):
            return []
        return [
            filled(
                events.QueueLimits,
                len(queue),
                queue=queue,
                guaranteed=tree.guaranteed[queue],
                maximum=state.queue_maximum[queue],
                used=state.queue_used[queue],
                pending=state.queue_pending[queue],
                am_limit=state.queue_am_limit[queue],
                am_used=state.queue_am_used[queue],
            )
        ]

    def _nodes(self, state: State, node: I32) -> list[Event]:
        if not len(node):
            return []
        other = node[self._node_state[node] != state.nodes["state"][node]]
        self._node_state[other] = state.nodes["state"][other]
        nodes = filled(
            events.Nodes,
            len(node),
            node=node,
            name_name=self._node_names[node],
            rack_name=self._rack_names[state.nodes["rack"][node]],
            state=state.nodes["state"][node],
            total=state.node_total[node],
            free=state.node_free[node],
        )
        return [nodes, *self._attributes(other)]

    def _applications(self, state: State, unread: Unread) -> list[Event]:
        index, itself = unread.apps, unread.used_only
        sent: list[Event] = []
        if len(itself):
            sent.append(self._themselves(state, itself))
            sent += self._tags(state, itself)
        index = index[state.apps["state"][index] != FINISHED]
        if len(index):
            headroom = np.full((len(index), len(state.counted)), UNBOUNDED, np.int64)
            sent.append(
                filled(
                    events.ApplicationUsage,
                    len(index),
                    application=index,
                    containers=state.apps["containers"][index],
                    used=state.app_used[index],
                    headroom=headroom,
                )
            )
            if self._oracle:
                sent.append(self.estimates(state, index))
        return sent

    def _themselves(self, state: State, index: I32) -> events.Applications:
        apps = state.apps[index]
        finished, pending = apps["state"] == FINISHED, apps["state"] == AppState.PENDING
        stands = np.where(finished, ApplicationState.GONE, ApplicationState.ACTIVE)
        stands = np.where(pending, ApplicationState.WAITING, stands).astype(np.uint8)
        jobs = [self._built.workload.jobs[app] for app in index.tolist()]
        everything = int(Replaces.REQUESTS | Replaces.BLACKLIST | Replaces.TAGS)
        return filled(
            events.Applications,
            len(index),
            application=index,
            cluster_timestamp=1,
            id=index + 1,
            attempt=1,
            name_name=[self._text(job.name) for job in jobs],
            type_name=[self._text(job.framework.value.upper()) for job in jobs],
            user_name=[self._text(job.user or "user") for job in jobs],
            queue=apps["queue"],
            priority=[job.priority for job in jobs],
            submit_time_ms=apps["arrival_ms"] + self._built.start_ms,
            start_time_ms=apps["arrival_ms"] + self._built.start_ms,
            state=stands,
            awaiting_am=apps["awaiting_am"],
            replaces=np.where(finished, everything, 0),
        )

    def _tags(self, state: State, index: I32) -> list[Event]:
        """Return the tags of unfinished applications; empty if there are none."""
        live = index[state.apps["state"][index] != FINISHED].tolist()
        rows = [(app, self._text(tag)) for app in live for tag in self._built.workload.jobs[app].tags if tag]
        if not rows:
            return []
        apps, tags = zip(*rows, strict=True)
        return [filled(events.Tags, len(rows), application=apps, tag_name=tags)]

    def _requests(self, state: State, row: I32) -> list[Event]:
        if not len(row):
            return []
        row = row[state.apps["state"][state.rows["app"][row]] != FINISHED]
        if not len(row):
            return []
        rows = state.rows[row]
        asks = filled(
            events.Requests,
            len(rows),
            application=rows["app"],
            key=rows["key"],
            priority=rows["priority"],
            allocation_request_id=-1,
            count=rows["count"],
            relax_locality=1,
            capability=state.capability[row],
        )
        sent: list[Event] = [asks]
        if len(self._bounds):
            sent += self._requirements(state, row)
        near = row[(rows["places_version"] > self._places_sent[row]) & (rows["count"] > 0)]
        if len(near):
            sent.append(self._localities(state, near))
        return sent

    def _requirements(self, state: State, row: I32) -> list[Event]:
        """Return the requirements of rows with new requests; they end with the requests."""
        bound = row[state.rows["bound"][row] >= 0]
        bound = bound[self._of_asks[state.rows["bound"][bound]]]
        asks = state.rows["count"][bound] > 0
        begun = bound[asks & ~self._bound_sent[bound]]
        self._bound_sent[bound] = asks
        if not len(begun):
            return []
        rows = state.rows[begun]
        return [
            filled(
                events.Constraints,
                len(begun),
                application=rows["app"],
                key=rows["key"],
                text_name=self._bounds[rows["bound"]],
            )
        ]

    def _attributes(self, node: I32) -> list[Event]:
        """Return the attributes of nodes."""
        sent = [(at, *each) for at in node.tolist() for each in self._built.facts[at].attributes.items()]
        if not sent:
            return []
        nodes, names, values = zip(*sent, strict=True)
        return [
            filled(
                events.NodeAttributes,
                len(sent),
                node=np.array(nodes, np.int32),
                attribute_name=[self._text(name) for name in names],
                value_name=[self._text(value) for value in values],
                present=1,
            )
        ]

    def _localities(self, state: State, row: I32) -> events.Localities:
        self._places_sent[row] = state.rows["places_version"][row]
        first, count = state.rows["first_place"][row], state.rows["places"][row]
        places = ranges(first, count)
        owner = np.repeat(row, count)
        return filled(
            events.Localities,
            len(places),
            application=state.rows["app"][owner],
            key=state.rows["key"][owner],
            name_name=self._where[state.places["where"][places]],
            count=state.places["count"][places],
            relax_locality=1,
        )

    def estimates(self, state: State, app: I32) -> events.TaskEstimates:
        """Return the true mean duration and remaining number of all tasks of applications: the oracle."""
        if self._means is None or self._deviations is None:
            self._means, self._deviations = _durations(state)
            if self._plans is not None:
                self._means, self._deviations = self._plans.believe(state, self._means, self._deviations)
        row = ranges(state.apps["first_row"][app], state.apps["rows"][app])
        row = row[self._is_stage[row]]
        left = state.rows["tasks"][row] - state.rows["done"][row]
        return events.TaskEstimates(
            application=state.rows["app"][row],
            key=state.rows["key"][row],
            duration_ms=self._means[row],
            deviation_ms=self._deviations[row],
            tasks=left,
        )

    def _steps(self, state: State, unread: Unread) -> list[Event]:
        steps = unread.container_steps
        count = len(steps)
        if not count:
            return []
        gone = state.apps["state"][steps["app"]] == FINISHED
        return [
            filled(
                events.Containers,
                count,
                container=steps["container"],
                application=np.where(gone, -1, steps["app"]),
                priority=state.rows["priority"][steps["row"]],
                node=steps["node"],
                event=steps["event"],
                time_ms=steps["time_ms"] + self._built.start_ms,
                created_ms=steps["created_ms"] + self._built.start_ms,
                exit_status=steps["exit_status"],
                by_treadle=1,
                am=steps["am"],
                capability=state.capability[steps["row"]],
            )
        ]


def ranges(first: I32, count: I32) -> I32:
    """Return ``count[i]`` numbers from ``first[i]`` on, for each i, concatenated."""
    ends = np.cumsum(count)
    steps = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - count, count)
    return (np.repeat(first, count) + steps).astype(np.int32)


def _constraint(bound: Bound) -> str:
    """Return the constraint text of a stage's requirements and preferences, as `parse_constraint` reads it.

    Preferences become alternatives: all of them, all but the least important one, and so on.
    """
    wanted: dict[str, object] = {"require": bound.require} if bound.require else {"and": []}
    if not bound.prefer:
        return json.dumps(wanted)
    preferred = [one.text() for one in conditions(bound.prefer)]
    choices = [{"require": ";".join(preferred[:kept])} for kept in range(len(preferred), 0, -1)]
    return json.dumps({"and": [wanted, {"or": [*choices, {"and": []}]}]})


def _durations(state: State) -> tuple[I64, I64]:
    """Return the mean duration of each row's tasks and their standard deviation, in milliseconds."""
    count = np.maximum(state.rows["tasks"], 1)
    durations, owner = state.tasks["duration_ms"].astype(np.float64), state.tasks["row"]
    means = np.bincount(owner, durations, len(state.rows)) / count
    squares = np.bincount(owner, (durations - means[owner]) ** 2, len(state.rows)) / count
    return means.astype(np.int64), np.sqrt(squares).astype(np.int64)
