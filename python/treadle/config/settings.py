"""The engine's settings, with defaults, bounds and descriptions.

The section `engines:` of a treadle.yaml or a scenario maps names to entries, in order; the first entry whose `select`
matches an application serves it. An entry with `copies` describes several engines, which share the entry's applications
by ID. Sections of treadle.yaml inside an entry replace the file's (`treadle.config.reader`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from treadle.config.parts import PART_KINDS, PARTS, Parameters, Part, PartRegistry
from treadle.errors import UserError, nearest, unknown

ENGINES_MAX: Final = 8
"""Engines on one cluster, copies counted: each reads all nodes and queues, and conflicts grow with their number."""

GANG_MAX: Final = 512
"""Containers that one transaction may have, since it is committed under one hold of the scheduler's lock."""

STEADY_MS: Final = 10_000
"""How long a restarted engine must be alive, in ms, before its applications return to it."""

_SHOWN_MAX: Final = 20

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")


class Select(Parameters):
    """Which applications an entry serves: those that every condition matches; an empty list matches all."""

    queues: tuple[str, ...] = Field(
        default=(), max_length=256, strict=False, description="Whole paths, as root.prod: a queue, and all below it."
    )
    types: tuple[str, ...] = Field(
        default=(), max_length=256, strict=False, description="As MAPREDUCE, TEZ, SPARK; compared in upper case."
    )
    tags: tuple[str, ...] = Field(
        default=(), max_length=256, strict=False, description="Tags, of which an application has at least one."
    )
    users: tuple[str, ...] = Field(default=(), max_length=256, strict=False, description="Users.")
    tasks_min: int = Field(
        default=0, ge=0, le=1_000_000_000, description="Containers that it has and asks for when it is first seen."
    )
    tasks_max: int = Field(default=0, ge=0, le=1_000_000_000, description="The same, at most; 0: no bound.")

    @field_validator("queues")
    @classmethod
    def _are_paths(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for queue in value:
            if queue != "root" and not queue.startswith("root."):
                raise ValueError(f"{queue!r} is not a path from the root; write it whole, as root.{queue or 'default'}")
        return value

    @field_validator("types")
    @classmethod
    def _in_upper_case(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each.upper() for each in value)

    def covers(self, other: Select) -> bool:
        """Return whether this one matches every application that another one matches."""
        within = all(any(f"{queue}.".startswith(f"{own}.") for own in self.queues) for queue in other.queues)
        return (
            (not self.queues or "root" in self.queues or (bool(other.queues) and within))
            and _includes(self.types, other.types)
            and _includes(self.tags, other.tags)
            and _includes(self.users, other.users)
            and self.tasks_min <= other.tasks_min
            and (not self.tasks_max or 0 < other.tasks_max <= self.tasks_max)
        )


def _includes(names: Collection[str], others: Collection[str]) -> bool:
    """Return whether each of the others is among the names, too; an empty list matches everything."""
    return not names or (bool(others) and set(others) <= set(names))


class Retry(Parameters):
    """When an application whose transaction conflicted is tried again."""

    backoff_ms: int = Field(default=1000, ge=1, le=3_600_000, description="After the first conflict; then doubled.")
    backoff_max_ms: int = Field(default=30_000, ge=1, le=3_600_000, description="The longest.")
    attempts_max: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="Conflicts with nothing placed between them, after which its fallback serves the application.",
    )

    def wait_ms(self, conflicts: int) -> int:
        """Return the backoff of an application in ms after so many (at least 1) conflicts without a placement."""
        return min(self.backoff_ms << min(conflicts - 1, 40), self.backoff_max_ms)


class Entry(Parameters):
    """An entry of the section, without the sections of treadle.yaml that may stand in it."""

    select: Select = Field(default=Select(), description="Which applications it serves; empty: all that are left.")
    conflicts: Literal["fine", "coarse"] = Field(
        default="fine",
        description="fine: what does not fit any more is refused; coarse: whatever is for a node on which others have "
        "placed something since the engine looked.",
    )
    transactions: Literal["incremental", "gang"] = Field(
        default="incremental",
        description="incremental: what can be placed is; gang: all that an application asks for after its AM, or "
        "nothing. The tag treadle:gang=N asks for the same for the first N containers after the AM.",
    )
    decision_max_s: float = Field(
        default=30.0, gt=0.0, le=600.0, description="An engine that thinks for longer counts as dead."
    )
    retry: Retry = Field(default=Retry(), description="When it tries again after a conflict.")
    copies: int = Field(default=1, ge=1, le=ENGINES_MAX, description="Engines that share its applications by id.")
    claim: float = Field(default=1.0, gt=0.0, le=1.0, description="The largest part of a partition that each may use.")
    precedence: int = Field(
        default=0, ge=-1000, le=1000, description="If two wait to commit, the one with the higher number is first."
    )
    fallback: str = Field(
        default="",
        description="The entry that serves its applications while it is dead; empty: its other copies, then the first "
        "engine that is alive.",
    )


@dataclass(frozen=True, slots=True)
class RosterEngine:
    """One engine of a roster."""

    name: str
    """Its entry's name, with -1, -2, ... appended if that has copies."""
    entry_name: str
    copy: int
    """Number of the copy, from 0."""
    entry: Entry
    fallback: str
    """The preferred entry while this engine is dead, its own if there are copies; empty: any."""


def engines_of(entries: Mapping[str, Entry]) -> tuple[RosterEngine, ...]:
    """Return the engines of valid entries (see `problems`), in order."""
    engines = []
    for name, entry in entries.items():
        fallback = entry.fallback or (name if entry.copies > 1 else "")
        for copy in range(entry.copies):
            own = f"{name}-{copy + 1}" if entry.copies > 1 else name
            engines.append(RosterEngine(own, name, copy, entry, fallback))
    return tuple(engines)


def problems(entries: Mapping[str, Entry]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the problems of individually valid entries: the path below `engines`, and the remedy."""
    if not entries:
        return
    seen: dict[str, str] = {}
    for name, entry in entries.items():
        for engine in engines_of({name: entry}):
            if not _NAME.fullmatch(engine.name):
                text = f"{engine.name!r} is not a name of an engine; write at most 32 of a-z, 0-9 and -, a letter first"
                yield (name,), text
                break
            if engine.name in seen:
                text = f"an engine of this entry and one of {seen[engine.name]!r} are called {engine.name}; rename one"
                yield (name,), text
                break
            seen[engine.name] = name
        select, retry = entry.select, entry.retry
        if select.tasks_max and select.tasks_max < select.tasks_min:
            text = f"{select.tasks_max} is below tasks_min, {select.tasks_min}; raise it, or write 0 for no bound"
            yield (name, "select", "tasks_max"), text
        if retry.backoff_max_ms < retry.backoff_ms:
            text = f"{retry.backoff_max_ms} is below backoff_ms, {retry.backoff_ms}; raise it"
            yield (name, "retry", "backoff_max_ms"), text
        known = [other for other in entries if other != name or entry.copies > 1]
        if entry.fallback and entry.fallback not in known:
            yield (name, "fallback"), unknown(entry.fallback, known)
    count = sum(entry.copies for entry in entries.values())
    if count > ENGINES_MAX:
        yield (), f"{count} engines with copies; at most {ENGINES_MAX} may be on one cluster"
    last = list(entries)[-1]
    if entries[last].select != Select():
        text = "the last entry must serve what no other does; take its select out, or add an entry without one"
        yield (last, "select"), text
    yield from _serving_nothing(entries)


def _serving_nothing(entries: Mapping[str, Entry]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield entries that leave no application to later ones, unless these are fallbacks."""
    names = list(entries)
    first = next((at for at, name in enumerate(names) if entries[name].select.covers(Select())), len(names))
    fallbacks = {entry.fallback for name, entry in entries.items() if entry.fallback != name}
    idle = [name for name in names[first + 1 :] if name not in fallbacks]
    if idle:
        text = (
            f"matches everything, so that {', '.join(idle)} below never serve{'s' * (len(idle) == 1)} anything; "
            "give it a selector, or put it last"
        )
        yield (names[first], "select"), text
    for at, name in enumerate(names[: first + 1]):
        above = next((each for each in names[:at] if entries[each].select.covers(entries[name].select)), None)
        if above is not None and name not in fallbacks:
            same = entries[name].select.covers(entries[above].select)
            remedy = f"change what one of them selects, or leave {name} out" if same else f"put {name} above {above}"
            text = f"{above} above matches all of it, so that {name} never serves anything; {remedy}"
            yield (name, "select"), text


def lost_queues(
    engines: Sequence[RosterEngine], queues: Collection[str], of: str = "the scenario"
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the queues in selectors that a cluster lacks: the path in the file, and the error.

    Args:
        engines: a roster
        queues: full paths of all queues, including parents
        of: the cluster's name in a message
    """
    for name, entry in {engine.entry_name: engine.entry for engine in engines}.items():
        for queue in entry.select.queues:
            if queue not in queues:
                hint = nearest(queue, queues) or f"; there are {', '.join(sorted(queues)[:_SHOWN_MAX])}"
                yield ("engines", name, "select", "queues"), f"{queue} is not a queue of {of}{hint}"


def unused(value: object) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield unused settings of a section of this kind: the path in the file, and the reason."""
    for name, entry in list(value.items())[1:] if isinstance(value, dict) else ():
        if isinstance(entry, dict) and "listener" in entry:
            yield ("engines", str(name), "listener"), "is not used: only the first engine has the plan listener"


def _is_absolute(value: str) -> str:
    if value and not value.startswith("/"):
        raise ValueError("it must be an absolute path, or empty")
    return value


AbsolutePath = Annotated[str, AfterValidator(_is_absolute)]


class EngineReservation(Parameters):
    """A node is held for an ask that is too big for the free space of any node, so that small asks do not starve it."""

    nodes_max: int = Field(default=4, ge=0, le=1000, description="Nodes held at the same time; 0: none.")
    nodes_fraction: float = Field(
        default=0.25,
        ge=0.0,
        le=1.0,
        description="The largest fraction of a partition's nodes held at a time; at least one, all under hdrf or drf.",
    )
    duration_ms: int = Field(
        default=30_000,
        ge=0,
        le=86_400_000,
        description="How long a node is held for one ask; smaller asks go around it.",
    )
    headroom: bool = Field(
        default=False,
        description="A node takes a task only if, of every resource that it needs, there is room for the largest one "
        "that is asked for and that the node could hold: small asks do not use up what large ones need.",
    )


class InFlight(Parameters):
    """A proposal counts as placed until its fate is known."""

    timeout_ms: int = Field(
        default=10_000,
        ge=100,
        le=3_600_000,
        description="A proposal without a known outcome is forgotten after this time.",
    )


class Limits(Parameters):
    """Bounds of one decision."""

    part_timeout_ms: int = Field(
        default=500,
        ge=10,
        le=60_000,
        description="How long parts from files may take in one decision, together, before another policy takes over.",
    )
    proposals_max: int = Field(
        default=4096,
        ge=1,
        le=1_000_000,
        description="The most proposals in one answer; the ResourceManager may ask for fewer.",
    )


class JobHistory(Parameters):
    """The history of recurring jobs, for `treadle history` and for estimates."""

    store: str = Field(
        default="",
        description="Where: the absolute path of a file, or the URL of another database; empty: nothing is remembered.",
    )
    staging: AbsolutePath = Field(
        default="",
        description="The folder in which MapReduce jobs of {user} are staged, if the sidecar may read it: "
        "with the sizes of splits there pilots show more; empty: it is not read.",
    )
    age_days: int = Field(default=180, ge=1, le=36_500, description="A job that was not seen for so long is forgotten.")
    rows_per_user: int = Field(
        default=5_000, ge=1, le=10_000_000, description="The most stages of jobs of one user that are remembered."
    )
    size_mb: int = Field(default=256, ge=1, le=1_000_000, description="The most that the store may hold, MiB.")
    user_mb: int = Field(
        default=32, ge=1, le=1_000_000, description="The most that it may hold of the jobs of one user, MiB."
    )
    application_mb: int = Field(
        default=8,
        ge=1,
        le=1_000_000,
        description="The most that one application may change in it, MiB: a session may run many DAGs.",
    )

    @field_validator("store")
    @classmethod
    def _is_a_place(cls, value: str) -> str:
        if value and not value.startswith("/") and "://" not in value:
            raise ValueError("it must be an absolute path or a URL, or empty")
        return value


class Plans(Parameters):
    """Jobs whose DAG is known are planned on arrival, for fit `tetris` and for AMs that order their stages."""

    schedules: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Candidate schedules that a plan is chosen from; 0: nothing is planned.",
    )
    scores: bool = Field(
        default=True,
        description="Send the engine how early plans want tasks; else only AMs that order a job's stages use them.",
    )
    relative_scores: bool = Field(
        default=True,
        description="The next task of a job has the score 1, however far the job is; false: as in the paper, where "
        "jobs fall behind others towards their end.",
    )
    cluster_fraction: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="A job is planned as if it had this fraction of the machines to itself.",
    )
    replan_factor: float = Field(
        default=3.0,
        gt=1.0,
        le=1000.0,
        description="A plan is wrong when a stage's tasks take this many times longer or shorter, or are this many "
        "times more or fewer, than planned.",
    )
    replans_max: int = Field(
        default=3, ge=0, le=100, description="A wrong plan is made again so often for a job; then it is dropped."
    )
    plans_cached_max: int = Field(default=256, ge=0, le=100_000, description="Plans kept for equal DAGs.")
    claims_fraction: float = Field(
        default=1.0,
        ge=0.0,
        le=1.0,
        description="How long a task runs by its own application counts no less than this fraction of how long its "
        "containers live, as the RM sees it. Less than 1: one that is used again has several tasks; 0: applications "
        "are believed.",
    )


KINDS: Final = ("cpu", "mem", "disk", "os", "clock", "net", "other")
"""The dimensions of Phoenix's vector (`treadle.constraints`)."""

_ATTRIBUTE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")


class Constraints(Parameters):
    """What nodes differ in (docs/phoenix.md)."""

    kinds: dict[str, str] = Field(
        default={},
        description="The kind of attributes and resource types, by name, besides those that are known: {gpu: cpu}. "
        "Phoenix's vector has cpu, mem, disk, os, clock and net; all else is other.",
    )

    @field_validator("kinds")
    @classmethod
    def _lower(cls, kinds: dict[str, str]) -> dict[str, str]:
        for name, kind in kinds.items():
            if not _ATTRIBUTE.fullmatch(name):
                raise ValueError(f"{name!r} is not an attribute or a resource type; no requirement can have it")
            if kind not in KINDS:
                raise ValueError(f"{name}: {unknown(kind, KINDS)}")
        return {name.lower(): kind for name, kind in kinds.items()}


class Listener(Parameters):
    """A port where Tez applications ask for plans and report; read when a sidecar starts (docs/plan-listener.md)."""

    address: str = Field(
        default="", description="An address of this host that nodes of the cluster reach; empty: there is no such port."
    )
    port: int = Field(default=8047, ge=1, le=65_535, description="The same on each ResourceManager's host.")
    encrypt: bool = Field(
        default=False, description="Encrypt what AMs ask and report, with AES-GCM under the key of their attempt."
    )
    socket: AbsolutePath = Field(
        default="",
        description="If the listener is not started by the sidecar, but as another user: the whole path of a "
        "Unix socket (conf/systemd/treadle-plans.socket). Empty: the sidecar starts it, as its own user.",
    )


class Kernels(Parameters):
    """Where the engine's compiled code is kept; read when a sidecar starts."""

    folder: AbsolutePath = Field(
        default="",
        description="A folder of the sidecar's user that no other user may write to. Empty: next to the package, or "
        "else ~/.cache/treadle, if only that user and root may write there; otherwise each start compiles.",
    )


class Record(Parameters):
    """What engines receive and answer is recorded, for `treadle replay` (docs/record-replay.md)."""

    folder: AbsolutePath = Field(
        default="",
        description="The absolute path of a folder that no other user may read; it is made in a folder that "
        "exists. Empty: nothing is recorded.",
    )
    size_mb: int = Field(
        default=1024, ge=2, le=10_000_000, description="The most that the folder may hold, MiB; the oldest goes first."
    )
    age_hours: int = Field(default=168, ge=1, le=876_000, description="Older segments are removed.")
    segment_mb: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="A segment that is so long ends, MiB; the next begins with a snapshot. At most half of size_mb.",
    )
    segment_minutes: int = Field(default=30, ge=1, le=525_600, description="And so does one that is so old.")
    queue_mb: int = Field(
        default=64,
        ge=1,
        le=65_536,
        description="So much may wait to be written, MiB; what comes beyond it is dropped, and another segment begins.",
    )

    @field_validator("segment_mb")
    @classmethod
    def _fits(cls, value: int, info: ValidationInfo) -> int:
        size_mb = info.data.get("size_mb")
        if size_mb is not None and 2 * value > size_mb:
            raise ValueError(f"it must be at most half of size_mb ({size_mb}); raise size_mb or lower it")
        return value


IGNORE_PRIORITY: Final = "ignore_priority"
"""The key of `policy:` in addition to its five parts."""

IGNORES_PRIORITY: Final = (
    "Let the order alone decide. False: an application with a higher priority comes first where its queue's own "
    "ordering-policy is fifo, as in YARN."
)
"""Description of that key."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The five parts of the policy (`treadle.config.parts.PART_KINDS`), and whether priorities come first."""

    gate: Part
    share: Part
    order: Part
    fit: Part
    estimate: Part
    ignore_priority: bool = False
    """Whether the order alone decides where a queue's own ordering policy compares application priorities first."""

    def name(self) -> str:
        """Return the kinds of the parts in one line, for status pages and metrics."""
        parts = " ".join(f"{part}={getattr(self, part).label}" for part in PART_KINDS)
        return f"{parts} {IGNORE_PRIORITY}" if self.ignore_priority else parts

    def overrides_guarantees(self) -> bool:
        """Return whether queues get other shares than the RM guarantees, which its preemption would undo."""
        return self.share.kind.traits.overrides

    def overrides_order(self) -> bool:
        """Return whether applications ignore their queue's order, which its preemption would undo."""
        return self.order.kind.traits.overrides or self.holds_back()

    def holds_back(self) -> bool:
        """Return whether the gate may hold back servable requests."""
        return self.gate.kind.traits.overrides


@dataclass(frozen=True)
class Source:
    """The complete source of settings, which allows reading them again after the files have changed."""

    file: str
    text: str
    part_files: Mapping[str, bytes]
    """The content of each custom part's Python file, by absolute path."""

    @property
    def digest(self) -> str:
        """Digest of the contents."""
        found = hashlib.sha256(self.text.encode())
        for path, content in sorted(self.part_files.items()):
            found.update(b"\0" + path.encode() + b"\0" + hashlib.sha256(content).digest())
        return found.hexdigest()


@dataclass(frozen=True, slots=True)
class Settings:
    """All of treadle.yaml."""

    policy: Policy
    engine_reservation: EngineReservation
    in_flight: InFlight
    limits: Limits
    seed: int
    """Seed of the policy's random draws: equal seeds and events give equal proposals."""
    source: Source | None = field(default=None, compare=False)
    """None if they were not read from a file."""
    history: JobHistory = field(default_factory=JobHistory)
    plans: Plans = field(default_factory=Plans)
    listener: Listener = field(default_factory=Listener)
    kernels: Kernels = field(default_factory=Kernels)
    constraints: Constraints = field(default_factory=Constraints)
    record: Record = field(default_factory=Record)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """Warnings about their file, such as settings under old names."""
    engines: tuple[RosterEngine, ...] = ()
    """Several engines on one cluster, in order; empty: one, with these settings."""
    engine: RosterEngine | None = None
    """The one of several engines that uses these settings; None: the only one."""
    entries: Mapping[str, Settings] = field(default_factory=dict, hash=False)
    """Settings of the engines of each entry, by its name."""

    def for_engine(self, name: str) -> Settings:
        """Return the settings of an engine of the roster.

        Engines have different seeds, or copies would choose the same nodes.

        Raises:
            UserError: there is no such engine.
        """
        names = [engine.name for engine in self.engines]
        if name not in names:
            raise UserError(f"there is no engine of this name: {unknown(name, names)}")
        at = names.index(name)
        own = self.entries[self.engines[at].entry_name]
        return replace(own, seed=(own.seed + at) & SEED_MAX, engine=self.engines[at])

    @property
    def of_first_engine(self) -> Settings:
        """Settings of the first engine, or the only one, whose policy the ResourceManager's bean shows."""
        return self.for_engine(self.engines[0].name) if self.engines else self

    @property
    def digest(self) -> str:
        """Digest of the source; empty without one."""
        return "" if self.source is None else self.source.digest


SECTIONS: dict[str, type[Parameters]] = {
    "engine_reservation": EngineReservation,
    "in_flight": InFlight,
    "limits": Limits,
    "history": JobHistory,
    "plans": Plans,
    "listener": Listener,
    "kernels": Kernels,
    "constraints": Constraints,
    "record": Record,
}
"""The keys of treadle.yaml besides ``policy``, ``seed`` and ``engines``."""

OWN_KEYS: tuple[str, ...] = ("policy", "seed", *(name for name in SECTIONS if name != "kernels"))
"""The keys that may also stand in an entry of ``engines``; compiled code is the same for all engines."""

KEYS: tuple[str, ...] = ("policy", "seed", *SECTIONS, "engines")
"""All keys of treadle.yaml."""

SEED_MAX = 2**63 - 1


def default_settings(parts: PartRegistry = PARTS) -> Settings:
    """Return the settings of an empty treadle.yaml; the default parts must have been registered."""
    chosen: dict[str, Any] = {part: parts.default(part) for part in PART_KINDS}
    return Settings(Policy(**chosen), EngineReservation(), InFlight(), Limits(), 0)


Choice = str | tuple[str, Mapping[str, Any]]
"""The kind of a part, or the kind and its changed parameters."""


def with_parts(settings: Settings, chosen: Mapping[str, Choice]) -> Settings:
    """Return settings with other parts, such as ``{"order": "srpt", "fit": ("packing", {"window": 1})}``."""
    update: dict[str, Any] = {}
    for part, choice in chosen.items():
        name, parameters = (choice, {}) if isinstance(choice, str) else choice
        kind = PARTS.kinds(part)[name]
        update[part] = Part(kind, kind.parameters(**parameters))
    return replace(settings, policy=replace(settings.policy, **update))
