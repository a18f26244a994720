"""Reads a ResourceManager: its beans, and its REST pages.

One thread reads one page at a time; `treadle.yarn.pages` bounds the size of each page.

Queues, nodes and jobs are parsed from the REST pages, within bounds. Whatever a page contains, results have the types
below: names are clipped texts, numbers are finite.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from pydantic import Field, PlainValidator, TypeAdapter, ValidationError

from treadle.errors import UserError, printable
from treadle.yarn.codes import FAILED_MAP, MAP, REDUCE, is_named
from treadle.yarn.pages import address_of, is_missing, read_page, read_treadle, state_of
from treadle.yarn.treadle_beans import engines_in, why_not

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

QUEUES_MAX: Final = 500
NODES_MAX: Final = 10_000
JOBS_MAX: Final = 2000
TEXT_MAX: Final = 256

_DEPTH_MAX: Final = 20
_RUNNING: Final = {"RUNNING", "DECOMMISSIONING"}


def text(value: Any) -> str:
    """Return a text of at most `TEXT_MAX` characters."""
    return "" if value is None else str(value)[:TEXT_MAX]


def number(value: Any) -> float:
    """Return a finite number; 0 for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        converted = float(value)
    except OverflowError:
        return 0.0
    return converted if math.isfinite(converted) else 0.0


def whole(value: Any) -> int:
    """Return an integer; 0 for any other value."""
    return int(number(value))


Text = Annotated[str, PlainValidator(text)]
Whole = Annotated[int, PlainValidator(whole)]
Count = Annotated[int, PlainValidator(lambda value: max(whole(value), 0))]
"""Fields of a page, whatever stands there; for a count, -1 is 0: a ResourceManager writes that after an end."""


@dataclass(slots=True)
class Queue:
    """A queue. Shares are fractions of its partition's dominant resource, for nodes without a label."""

    path: str
    depth: int
    leaf: bool
    state: str
    guaranteed: float
    maximum: float
    used: float
    pending: float
    """Its outstanding requests."""
    reserved: float
    running: int
    """Activated applications."""
    waiting: int
    """Applications that wait for activation."""
    containers: int

    @property
    def entitled(self) -> float:
        """Its entitlement: the guarantee, up to its requests."""
        return min(self.guaranteed, self.used + self.pending)


@dataclass(slots=True)
class Nodes:
    """Nodes, a list per column."""

    name: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    rack: list[str] = field(default_factory=list)
    containers: list[int] = field(default_factory=list)
    memory_mb: list[int] = field(default_factory=list)
    memory_used_mb: list[int] = field(default_factory=list)
    vcores: list[int] = field(default_factory=list)
    vcores_used: list[int] = field(default_factory=list)
    left_out: int = 0
    """Nodes beyond `NODES_MAX`."""

    def totals(self) -> dict[str, int]:
        """Return the total capacity of the running nodes."""
        at = [index for index, state in enumerate(self.state) if state in _RUNNING]
        columns = ("containers", "memory_mb", "memory_used_mb", "vcores", "vcores_used")
        return {"nodes": len(at), **{name: sum(getattr(self, name)[index] for index in at) for name in columns}}


class HeldNode(NamedTuple):
    """A node that an engine reserves for a large request."""

    node: str
    """Its host, with the port if the scheduler's node names have one."""
    application: str
    left_ms: int
    """Maximum remaining time in ms."""


class Agreement(NamedTuple):
    """In mode observe_only: containers that the CapacityScheduler placed, by whether Treadle proposed them."""

    same_node: int
    other_node: int
    capacity_scheduler_only: int


@dataclass(frozen=True, slots=True)
class Job:
    """An application, by the fields of a ResourceManager's page."""

    id: Text
    name: Text = ""
    user: Text = ""
    queue: Text = ""
    type: Annotated[Text, Field(alias="applicationType")] = ""
    state: Text = ""
    final: Annotated[Text, Field(alias="finalStatus")] = ""
    """Final status reported by its application master; ``UNDEFINED`` before that."""
    progress: Annotated[float, PlainValidator(lambda value: min(max(number(value) / 100, 0.0), 1.0))] = 0.0
    """0 to 1, as reported by its application master."""
    submitted_ms: Annotated[Whole, Field(alias="startedTime")] = 0
    elapsed_ms: Annotated[Whole, Field(alias="elapsedTime")] = 0
    ended_ms: Annotated[Count, Field(alias="finishedTime")] = 0
    """0 while it has not ended."""
    containers: Annotated[Count, Field(alias="runningContainers")] = 0
    memory_mb: Annotated[Count, Field(alias="allocatedMB")] = 0
    vcores: Annotated[Count, Field(alias="allocatedVCores")] = 0
    reserved_mb: Annotated[Count, Field(alias="reservedMB")] = 0
    diagnostics: Text = ""


_JOB: Final = TypeAdapter(Job)


def plain(row: Queue | Nodes | Job) -> dict[str, Any]:
    """Return a row as JSON."""
    return {name: getattr(row, name) for name in row.__slots__}


def queues_of(content: Any, memory_mb: int, vcores: int) -> tuple[list[Queue], int]:
    """Return the queues of the page ``scheduler``, parents before children, and how many were dropped.

    Args:
        content: of the page
        memory_mb: total of all nodes
        vcores: total of all nodes

    Raises:
        ValueError: it is not this page of a CapacityScheduler.
    """
    try:
        root = content["scheduler"]["schedulerInfo"]
        queues = [_queue(each, depth, memory_mb, vcores) for each, depth in _walk(root, "", 0)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the page of the scheduler has another form than the CapacityScheduler's") from error
    _add_to_parents(queues)
    return queues[:QUEUES_MAX], max(len(queues) - QUEUES_MAX, 0)


def _walk(queue: Any, above: str, depth: int) -> Iterator[tuple[dict[str, Any], int]]:
    path = text(queue.get("queuePath") or (f"{above}.{queue['queueName']}" if above else queue["queueName"]))
    children = (queue.get("queues") or {}).get("queue") or []
    yield {**queue, "queuePath": path, "leaf": not children}, depth
    if depth < _DEPTH_MAX:
        for child in children:
            yield from _walk(child, path, depth + 1)


def _queue(queue: Mapping[str, Any], depth: int, memory_mb: int, vcores: int) -> Queue:
    usages = (queue.get("resources") or {}).get("resourceUsagesByPartition") or []
    here: Mapping[str, Any] = next((usage for usage in usages if not usage.get("partitionName")), {})

    def share(of: str) -> float:
        amount = here.get(of) or {}
        return max(number(amount.get("memory")) / max(memory_mb, 1), number(amount.get("vCores")) / max(vcores, 1))

    own = depth > 0
    return Queue(
        path=str(queue["queuePath"]),
        depth=depth,
        leaf=bool(queue["leaf"]),
        state=text(queue.get("state") or "RUNNING"),
        guaranteed=number(queue.get("absoluteCapacity")) / 100 if own else 1.0,
        maximum=number(queue.get("absoluteMaxCapacity")) / 100 if own else 1.0,
        used=number(queue.get("absoluteUsedCapacity" if own else "usedCapacity")) / 100,
        pending=share("pending"),
        reserved=share("reserved"),
        running=whole(queue.get("numActiveApplications")),
        waiting=whole(queue.get("numPendingApplications")),
        containers=whole(queue.get("numContainers")),
    )


def _add_to_parents(queues: list[Queue]) -> None:
    """Set the parents' sums of requests, reservations and applications, of which the page has only the leaves'."""
    above: list[Queue] = []
    for queue in queues:
        del above[queue.depth :]
        if not queue.leaf:
            queue.pending = queue.reserved = 0.0
            queue.running = queue.waiting = queue.containers = 0
            above.append(queue)
            continue
        for parent in above:
            parent.pending += queue.pending
            parent.reserved += queue.reserved
            parent.running += queue.running
            parent.waiting += queue.waiting
            parent.containers += queue.containers


def nodes_of(content: Any) -> Nodes:
    """Return the nodes of the page ``nodes``, sorted by name.

    Raises:
        ValueError: it is not this page.
    """
    try:
        listed = (content["nodes"] or {}).get("node") or []
        listed = sorted(listed, key=lambda node: str(node["id"]))
        nodes = Nodes(left_out=max(len(listed) - NODES_MAX, 0))
        for node in listed[:NODES_MAX]:
            nodes.name.append(text(node["id"]))
            nodes.state.append(text(node.get("state")))
            nodes.label.append(text(", ".join(map(str, node.get("nodeLabels") or []))))
            nodes.rack.append(text(node.get("rack")))
            nodes.containers.append(whole(node.get("numContainers")))
            used, cores = whole(node.get("usedMemoryMB")), whole(node.get("usedVirtualCores"))
            nodes.memory_mb.append(used + whole(node.get("availMemoryMB")))
            nodes.memory_used_mb.append(used)
            nodes.vcores.append(cores + whole(node.get("availableVirtualCores")))
            nodes.vcores_used.append(cores)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the page of the nodes has another form than a ResourceManager's") from error
    return nodes


def held_of(content: Any) -> list[HeldNode]:
    """Return the reserved nodes in a sidecar's answer, at most `NODES_MAX`; invalid entries are skipped."""
    rows = [row for row in content if isinstance(row, dict)] if isinstance(content, list) else []
    return [
        HeldNode(text(row.get("node")), text(row.get("application")), max(whole(row.get("left_ms")), 0))
        for row in rows[:NODES_MAX]
    ]


def agreements_of(content: Any) -> dict[str | None, Agreement]:
    """Return a sidecar's results of `observe_only` by queue, at most `QUEUES_MAX`; overall under None."""
    document = content if isinstance(content, dict) else {}
    queues = document.get("by_queue")
    rows = [(None, document.get("total")), *(list(queues.items())[:QUEUES_MAX] if isinstance(queues, dict) else [])]
    return {
        None if name is None else text(name): Agreement(
            *(max(whole(row.get(column)), 0) for column in Agreement._fields)
        )
        for name, row in rows
        if isinstance(row, dict)
    }


WAIT_S: Final = 0.4
"""How long a poll waits for engines, in seconds, without delaying the next; later answers are used by the next poll."""

NOT_YET: Final = "an engine has not answered yet"

Held = Callable[[], list[dict[str, Any]]]
"""Returns the reserved nodes of engines; raises `UserError` if they do not answer."""
Observed = Callable[[], dict[str, Any]]
"""Returns the results of `observe_only` (docs/running-it.md); raises `UserError` if the sidecar does not answer."""


class BackgroundQuestion(Generic[_T]):
    """Asks engines on its own thread, one question at a time."""

    def __init__(self, question: Callable[[], _T], nothing: _T) -> None:
        """Create it without an answer.

        Args:
            question: asks; raises `UserError` if there is no answer
            nothing: the result in that case
        """
        self._question, self._nothing = question, nothing
        self._thread: Thread | None = None
        self._latest = nothing, ""

    def ask(self, wait_s: float | None = None) -> tuple[_T, str]:
        """Return the answer, and why there is none (empty if there is)."""
        if self._thread is None:
            self._thread = Thread(target=self._ask, name="ask", daemon=True)
            self._thread.start()
        self._thread.join(WAIT_S if wait_s is None else wait_s)
        if self._thread.is_alive():
            return self._nothing, NOT_YET
        self._thread = None
        return self._latest

    def _ask(self) -> None:
        try:
            self._latest = self._question(), ""
        except UserError as error:  # expected outside the ResourceManager's host
            self._latest = self._nothing, printable(str(error))
        except Exception as error:  # pages report it; polling continues
            _log.exception("engines cannot be asked")
            self._latest = self._nothing, printable(f"{type(error).__name__}: {error}")


def jobs_of(content: Any) -> tuple[list[Job], int]:
    """Return the applications of the page ``apps``, oldest first, and how many were dropped.

    Raises:
        ValueError: it is not this page.
    """
    try:
        listed = (content["apps"] or {}).get("app") or []
        listed = sorted(listed, key=lambda app: (whole(app.get("startedTime")), str(app["id"])))
        return [_JOB.validate_python(app) for app in listed[:JOBS_MAX]], max(len(listed) - JOBS_MAX, 0)
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise ValueError("the page of the applications has another form than a ResourceManager's") from error


PAGE_BYTES_MAX: Final = 64 << 20
ENDED: Final = ("FINISHED", "FAILED", "KILLED")
"""Final states of an application."""
ENDED_MAX: Final = 500
"""Maximum number of ended applications per request."""
DIAGNOSTICS_MAX: Final = 16 << 10
"""Maximum length of displayed diagnostics; a user's program wrote some of them."""
ENGINES_MAX: Final = 16
REASONS_MAX: Final = 64

_TEXTS: Final = (
    "Mode",
    "Policy",
    "Learned",
    "WaitsFor",
    "Refusal",
    "LastError",
    "LastErrorTime",
    "Warnings",
    "IgnoredSettings",
)
_APPLICATIONS: Final = "/ws/v1/cluster/apps"
_ID: Final = re.compile(r"(?:application_)?(\d{1,19}_\d{1,10})")
_STAGES: Final = {FAILED_MAP: "maps that are run again", MAP: "maps", REDUCE: "reduces"}
"""MapReduce's stages by request priority."""
COUNTERS: Final = (
    "Proposals",
    "Committed",
    "Rejected",
    "PlacedByCapacityScheduler",
    "Frames",
    "PlacedForNeglected",
    "LeaseFlips",
    "LinkFailures",
    "SidecarStarts",
    "CaughtExceptions",
)
GAUGES: Final = ("Schedules", "LeaseHeld", "Stalled", "DecideP50Us", "DecideP99Us", "SinceMs")


class Decisions(NamedTuple):
    """The content of Treadle's beans."""

    why_not: str
    """Why Treadle does not schedule; empty if it does."""
    texts: dict[str, str]
    numbers: dict[str, int]
    """`COUNTERS` and `GAUGES`."""
    rejected: dict[str, int]
    """Rejected proposals by reason."""
    engines: list[dict[str, Any]]
    """Figures of each of several engines."""


class OneApplication(NamedTuple):
    """Details of one application from the ResourceManager."""

    ended: str
    """Final state; empty before its end."""
    diagnostics: str
    """YARN's own."""
    asks: list[dict[str, Any]]
    """Its requests by priority; most frameworks have one priority per stage."""


class Reader:
    """Reads from one ResourceManager. Methods raise `UserError` if there is no valid answer."""

    def __init__(self, rm: str, ca: Path | None = None) -> None:
        self.rm = rm
        self.ca = ca

    def beans(self) -> tuple[str, Decisions | None]:
        """Return ``ACTIVE`` or ``STANDBY``, and the content of Treadle's beans, if any."""
        active = text(state_of(self.rm, self.ca))
        if not active:
            raise UserError(f"{address_of(self.rm)}/jmx has no bean RMInfo, so it is no ResourceManager's; check --rm")
        status = read_treadle(self.rm, "Status", self.ca)
        return active, None if status is None else _decisions(status)

    def placements(self) -> dict[str, tuple[int, int]]:
        """Return for the latest applications the containers placed by Treadle, and the others."""
        counts = read_treadle(self.rm, "Placements", self.ca) or {}
        try:
            return {text(app): (whole(row["treadle"]), whole(row["native"])) for app, row in counts.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self.rm}: the Placements of the bean Treadle are something else") from error

    def cluster(self) -> tuple[Nodes, list[Queue], int]:
        """Return the nodes, the queues, and how many queues were dropped."""
        nodes = self._taken(nodes_of, "/ws/v1/cluster/nodes", {})
        totals = nodes.totals()
        page = "/ws/v1/cluster/scheduler"
        queues, left_out = self._taken(
            lambda content: queues_of(content, totals["memory_mb"], totals["vcores"]), page, {}
        )
        return nodes, queues, left_out

    def jobs(self) -> tuple[list[Job], int]:
        """Return the unfinished applications, and how many were dropped."""
        states = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
        return self._taken(jobs_of, _APPLICATIONS, {"states": states, "deSelects": "resourceRequests"})

    def ended(self, since_ms: int) -> list[Job]:
        """Return applications that ended since a time, milliseconds since 1970; at most `ENDED_MAX`."""
        query = {
            "states": ",".join(ENDED),
            "finishedTimeBegin": str(since_ms),
            "limit": str(ENDED_MAX),
            "deSelects": "resourceRequests",
        }
        jobs: list[Job] = self._taken(jobs_of, _APPLICATIONS, query)[0]
        return [job for job in jobs if job.ended_ms]

    def find(self, given: str) -> list[dict[str, str]]:
        """Return the texts of the applications with an ID or the end of it, ended ones included."""
        whole = _ID.fullmatch(given)
        page = _APPLICATIONS if whole is None else f"{_APPLICATIONS}/application_{whole[1]}"
        try:
            return self._taken(lambda content: _named(content, given), page, {"deSelects": "resourceRequests"})
        except UserError as error:
            if is_missing(error):
                return []
            raise

    def application(self, application: str) -> OneApplication:
        """Return the details of one application."""
        try:
            return self._taken(_application, f"{_APPLICATIONS}/{application}", {})
        except UserError as error:
            if not is_missing(error):
                raise
            raise UserError(
                f"the ResourceManager knows no {application}: it never came, or ended so long ago that it is forgotten "
                "(yarn.resourcemanager.max-completed-applications)"
            ) from error

    def _taken(self, take: Callable[[Any], _T], path: str, query: Mapping[str, str]) -> _T:
        content = read_page(self.rm, path, query, self.ca, PAGE_BYTES_MAX).content
        try:
            return take(content)
        except ValueError as error:
            raise UserError(f"{self.rm}{path}: {error}") from error


def _decisions(bean: Mapping[str, Any]) -> Decisions:
    try:
        engines = engines_in(bean)[:ENGINES_MAX]
    except UserError:
        engines = []
    shown = [{key: text(value) if isinstance(value, str) else value for key, value in each.items()} for each in engines]
    reasons = {key.removeprefix("Rejected"): value for key, value in bean.items() if key.startswith("Rejected")}
    rejected = {reason: whole(value) for reason, value in reasons.items() if reason.isidentifier()}
    return Decisions(
        why_not=why_not(bean),
        texts={name: "" if bean.get(name) is None else str(bean[name])[:2000] for name in _TEXTS},
        numbers={name: whole(bean[name]) for name in (*COUNTERS, *GAUGES) if name in bean},
        rejected=dict(sorted(rejected.items())[:REASONS_MAX]),
        engines=shown,
    )


def _named(content: Any, given: str) -> list[dict[str, str]]:
    try:
        listed = [content["app"]] if "app" in content else (content["apps"] or {}).get("app") or []
        return [_texts(app) for app in listed if is_named(str(app["id"]), given)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the page has another form than a ResourceManager's") from error


def _texts(app: Mapping[str, Any]) -> dict[str, str]:
    """Return what an application's page says of it; the final status is ``UNDEFINED`` before its AM has reported it."""
    texts = {name: text(app.get(name)) for name in ("id", "name", "user", "queue", "state")}
    diagnostics = str(app.get("diagnostics") or "").strip()[:DIAGNOSTICS_MAX]
    return texts | {"final_status": text(app.get("finalStatus")), "diagnostics": diagnostics}


def _application(content: Any) -> OneApplication:
    asks = _asks(content)  # which checks the form
    app = _texts(content["app"])
    ended = f"{app['state']}, final status {app['final_status']}" if app["state"] in ENDED else ""
    return OneApplication(ended, app["diagnostics"], asks)


def _asks(content: Any) -> list[dict[str, Any]]:
    """Return the open requests of an application's page, for any node; a row per priority and capability."""
    try:
        listed = content["app"].get("resourceRequests") or []
        stages = _STAGES if content["app"].get("applicationType") == "MAPREDUCE" else {}
        asks: dict[tuple[int, int, int, str, str], int] = {}
        for request in listed:
            if request.get("resourceName") != "*":
                continue
            priority, amount = request.get("priority"), request.get("capability") or {}
            key = (
                whole(priority.get("priority") if isinstance(priority, dict) else priority),
                whole(amount.get("memory")),
                whole(amount.get("vCores")),
                _others(amount),
                text(request.get("nodeLabelExpression")),
            )
            asks[key] = asks.get(key, 0) + whole(request.get("numContainers"))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the page has another form than an application's") from error
    return [
        {
            "priority": priority,
            "stage": stages.get(priority, ""),
            "memory_mb": memory,
            "vcores": vcores,
            "others": others,
            "label": label,
            "count": count,
        }
        for (priority, memory, vcores, others, label), count in sorted(asks.items())[:REASONS_MAX]
        if count
    ]


def _others(amount: Mapping[str, Any]) -> str:
    """Return the amounts of resources other than memory and cores, such as GPUs."""
    listed = (amount.get("resourceInformations") or {}).get("resourceInformation") or []
    amounts = [(text(each.get("name")), whole(each.get("value"))) for each in listed[:REASONS_MAX]]
    return text(
        ", ".join(f"{value} {name}" for name, value in amounts if value and name not in ("memory-mb", "vcores"))
    )
