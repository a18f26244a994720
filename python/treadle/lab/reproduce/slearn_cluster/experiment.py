"""SLearn on real ResourceManagers: MapReduce jobs of sizes that nobody knows, under it and under the stock scheduler.

Sizes are those of SWIM's samples of Facebook's clusters, drawn by seed and shrunk; tasks sleep, or count words in files
of unequal sizes (SLearn, NSDI 2022, section 5.3, has a testbed of 150 machines). All schedulers get the same jobs at
the same times, in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.lab.harness.map_reduce_jobs import MapReduceJobs, SleepJob, WordCount, master_logs
from treadle.lab.harness.waiting import LONG_TIMEOUTS, START_TIMEOUT_S, wait_ended
from treadle.lab.minicluster import ClusterSettings, MiniCluster, Scheduler
from treadle.lab.minicluster.site import CS, Entries, write_site
from treadle.workload.traces.swim import MB, SwimModel, swim_small

__all__ = ["SCHEMES", "Arrival", "Ended", "Round", "Scheme", "Settings", "arrivals", "run_scheme"]

OF_NODES: Final = 600
"""Machines of the cluster that FB-2009 was taken from."""
TASK_MB: Final = 512
MASTER_MB: Final = 128
"""That of an application master; its memory is not checked, and it must not take the room of tasks."""
SIZES: Final = {
    "mapreduce.map.memory.mb": str(TASK_MB),
    "mapreduce.reduce.memory.mb": str(TASK_MB),
    "yarn.app.mapreduce.am.resource.mb": str(MASTER_MB),
}
MAP_MS_MAX: Final = 20_000
"""The longest sleep of a task; longer ones are cut."""
TASKS_MAX: Final = 24
BLOCK_BYTES: Final = 2 << 20
MODEL: Final = SwimModel(block_mb=BLOCK_BYTES / MB, reduce_mb=64.0, mb_per_s=1.0, start_ms=1_000, tasks_max=TASKS_MAX)
"""Shrunk with their bytes: otherwise almost every job would have one map."""
REDUCES_PREEMPTED: Final = "Preempting attempt_"
"""What an application master logs for each of its own reduces that it kills (RMContainerAllocator).

"Going to preempt 1 due to lack of space for maps" alone says that maps wait: a job without reduces may log it."""

POLICY: Final = """
policy:
  gate: {{kind: pilots, masters_starting: {masters}}}
  share: {{kind: capacity}}
  order: {{kind: mlfq, size: whole, first_threshold_ms: {threshold_ms}}}
  fit: {{kind: packing}}
  estimate: {{kind: combined}}
profiles:
  store: {store}
"""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scheme:
    """A scheduler, and the order within its queue if it is the stock one."""

    name: str
    scheduler: Scheduler
    ordering: str = "fifo"


SCHEMES: Final = (
    Scheme("slearn", Scheduler.TREADLE),
    Scheme("fifo", Scheduler.CAPACITY),
    Scheme("fair", Scheduler.CAPACITY, "fair"),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """How large a round is."""

    jobs: int = 16
    nodes: int = 2
    slots: int = 3
    """Tasks at a time on a node."""
    load: float = 1.0
    """Mean load by the tasks' own time; the start of a JVM comes on top."""
    threshold_ms: int = 20_000
    """The first level's bound, SLearn's 10^6 ms shrunk as jobs are."""
    words_share: float = 0.5
    """Of the jobs: those that count words; the others sleep."""
    masters_starting: int = 2
    """Application masters that start at a time under slearn; 0: any number."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job and when it is submitted."""

    job: SleepJob
    at_ms: int
    files: tuple[int, ...] = ()
    """Sizes in bytes, if it counts words in place of sleeping: one for each map."""

    @property
    def work_ms(self) -> int:
        """The time that its tasks take together, if they sleep."""
        return self.job.maps * self.job.map_ms + self.job.reduces * self.job.reduce_ms


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a job."""

    name: str
    user: str
    maps: int
    work_ms: int
    """The time that its tasks were to take together, were they asleep."""
    words: bool
    """Did it count words?"""
    status: str
    completion_ms: int
    """From its submission to its end, by the ResourceManager's clock."""
    preempted_reduces: bool
    """Does its AM's log say that it killed reduces of its own?"""


@dataclass(frozen=True, slots=True)
class Round:
    """A draw of jobs under one scheduler."""

    seed: int
    scheme: str
    jobs: tuple[Ended, ...]
    placed: dict[str, int]
    """Containers that Treadle placed, and that the stock scheduler did; empty under the stock scheduler."""


def arrivals(sample: Path, seed: int, settings: Settings) -> list[Arrival]:
    """Draw the jobs of a round.

    Raises:
        UserError: the sample cannot be read, or has too few jobs.
    """
    demand = {"tasks": 1.0}
    capacity = {"tasks": float(settings.nodes * settings.slots)}
    drawn = swim_small(
        sample,
        seed,
        settings.jobs,
        settings.nodes,
        capacity,
        load=settings.load,
        of_nodes=OF_NODES,
        model=MODEL,
        demand=demand,
    )
    made = []
    chance = np.random.default_rng((seed, 1))
    for number, job in enumerate(drawn.jobs):
        maps, *rest = job.dag.stages
        reduces = rest[0] if rest else None
        sleep = SleepJob(
            f"swim {job.name} seed {seed}",
            job.user,
            maps.tasks,
            min(MAP_MS_MAX, maps.duration_ms),
            min(reduces.tasks, 4) if reduces else 0,
            min(MAP_MS_MAX, reduces.duration_ms) if reduces else 0,
            settings={"mapreduce.job.tags": f"treadle:swim-{seed}-{number}"},
        )
        counts = chance.random() < settings.words_share
        made.append(Arrival(sleep, job.arrival_ms, _files(sleep, seed + number) if counts else ()))
    return made


def _files(job: SleepJob, seed: int) -> tuple[int, ...]:
    """Return the files whose words are counted in place of a job that sleeps: its bytes by the model, unequally."""
    each = min(BLOCK_BYTES, (job.map_ms - MODEL.start_ms) / 1000 * MODEL.mb_per_s * MB)
    return skewed_sizes(job.maps, round(each * job.maps), seed)


def queues(ordering: str) -> Entries:
    """Return capacity-scheduler.xml: one queue that two users share, each may have all of it."""
    return {
        f"{CS}root.queues": "default",
        f"{CS}root.default.capacity": "100",
        f"{CS}root.default.user-limit-factor": "10",
        f"{CS}root.default.ordering-policy": ordering,
        f"{CS}maximum-am-resource-percent": "0.5",
    }


def cluster_settings(scheme: Scheme, settings: Settings, folder: Path) -> ClusterSettings:
    """Return the cluster of a scheme; its queues, policy and store are files beside ``folder``."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    queue_file = folder.with_name(f"{folder.name}-queues.xml")
    write_site(queue_file, queues(scheme.ordering))
    overrides = {}
    policy = None
    if scheme.scheduler is Scheduler.TREADLE:
        policy = folder.with_name(f"{folder.name}-treadle.yaml")
        store = folder.with_name(f"{folder.name}-profiles.db").resolve()
        store.unlink(missing_ok=True)  # nobody knows the sizes
        policy.write_text(
            POLICY.format(store=store, threshold_ms=settings.threshold_ms, masters=settings.masters_starting)
        )
        overrides = dict(LONG_TIMEOUTS)
    return ClusterSettings(
        nodes=settings.nodes,
        memory_mb=settings.slots * TASK_MB + 4 * MASTER_MB,
        vcores=64,
        scheduler=scheme.scheduler,
        queues=queue_file,
        policy=policy,
        overrides=overrides,
        start_timeout_s=START_TIMEOUT_S,
    )


def run_scheme(scheme: Scheme, jobs: list[Arrival], seed: int, settings: Settings, folder: Path, say: Say) -> Round:
    """Start a cluster in ``folder``, run the jobs on it, and stop it whatever happens.

    Raises:
        ClusterError: the cluster does not start, a job is not submitted or does not end, or the ResourceManager does
            not answer.
    """
    cluster = MiniCluster(cluster_settings(scheme, settings, folder), folder, say)
    for number, arrival in enumerate(jobs):
        if arrival.files:
            write_words(_words(folder, seed, number), arrival.files, seed + number)
    with cluster, MapReduceJobs(cluster) as client, cluster.answering():
        return _run(cluster, client, scheme, jobs, seed, say)


def _words(folder: Path, seed: int, number: int) -> Path:
    """Return the input of a draw's job: beside the cluster's folder, as all schedulers' jobs read the same."""
    return folder.with_name(f"{folder.name}-words") / f"draw{seed}-job{number}"


def _asked(cluster: MiniCluster, arrival: Arrival, seed: int, number: int) -> SleepJob | WordCount:
    job, settings = arrival.job, {**SIZES, **arrival.job.settings}
    if not arrival.files:
        return replace(job, settings=settings)
    words, counted = _words(cluster.folder, seed, number), cluster.folder / "counted" / f"draw{seed}-job{number}"
    return WordCount(job.name, job.user, words, counted, job.reduces, job.queue, settings)


def _run(
    cluster: MiniCluster, client: MapReduceJobs, scheme: Scheme, jobs: list[Arrival], seed: int, say: Say
) -> Round:
    submitted: dict[str, Arrival] = {}
    started = time.monotonic()
    for number, arrival in enumerate(jobs):
        time.sleep(max(0.0, started + arrival.at_ms / 1000 - time.monotonic()))
        submitted[client.submit(_asked(cluster, arrival, seed, number))] = arrival
        say(f"seed {seed}, {scheme.name}: {len(submitted)} of {len(jobs)} jobs submitted")
    title = f"seed {seed}, {scheme.name}"
    found = wait_ended(cluster, submitted, lambda ended: say(f"{title}: {ended} of {len(jobs)} jobs ended"))
    ended = tuple(_ended(cluster, submitted[id_], found[id_]) for id_ in submitted)
    placed = cluster.rm.placed() if scheme.scheduler is Scheduler.TREADLE else {}
    return Round(seed, scheme.name, ended, placed)


def _ended(cluster: MiniCluster, arrival: Arrival, application: dict[str, Any]) -> Ended:
    logs = (log.read_text(errors="replace") for log in master_logs(cluster, application["id"]))
    took_ms = int(application["finishedTime"]) - int(application["startedTime"])
    return Ended(
        arrival.job.name,
        arrival.job.user,
        arrival.job.maps,
        arrival.work_ms,
        bool(arrival.files),
        str(application["finalStatus"]),
        took_ms,
        any(REDUCES_PREEMPTED in log for log in logs),
    )


SIGMA: Final = 1.0
"""Of the logarithm of a file's size: of 24 files the largest is some seven times as large as the median."""
LEAST_BYTES: Final = 1_000
VOCABULARY: Final = np.array([f"word{number:04d} " for number in range(2_000)], dtype="S9")
"""Words of one length, each with the blank behind it."""
LINE_WORDS: Final = 12


def skewed_sizes(files: int, total_bytes: int, seed: int) -> tuple[int, ...]:
    """Return sizes of files, lognormal, that have about this many bytes together; none is empty."""
    weights = np.random.default_rng(seed).lognormal(0.0, SIGMA, files)
    sizes = np.maximum(LEAST_BYTES, total_bytes * weights / weights.sum())
    return tuple(int(size) for size in sizes)


def write_words(folder: Path, sizes: tuple[int, ...], seed: int) -> int:
    """Write files of random words, the rarer the later they come in the alphabet; a file that is there is kept.

    Args:
        folder: made if it is not there.
        sizes: of the files, to the line.
        seed: of the words.

    Returns:
        how many words are in them all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, len(VOCABULARY) + 1)
    words = 0
    for number, size in enumerate(sizes):
        count = max(1, size // (VOCABULARY.itemsize * LINE_WORDS)) * LINE_WORDS
        words += count
        drawn = chance.choice(VOCABULARY, count, p=weights / weights.sum()).reshape(-1, LINE_WORDS)
        drawn[:, -1] = np.char.replace(drawn[:, -1], b" ", b"\n")
        file = folder / f"part-{number:02d}.txt"
        if not file.exists():
            file.write_bytes(drawn.tobytes())
    return words
