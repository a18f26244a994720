"""The demonstration: jobs of three frameworks on a mini cluster, and the display while they run.

The demo of two engines: H-DRF for root.prod, SLearn for the rest, on one cluster at the same time.
"""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
import requests
import yaml
from rich.console import Console

from treadle.errors import counted
from treadle.live.policy_memory import state_folder
from treadle.live.question_socket import ask_server
from treadle.shipped import ready_made
from treadle.tables import empty_table
from treadle_lab.minicluster import ClusterError, ClusterSettings, MiniCluster
from treadle_lab.minicluster.processes import Say
from treadle_lab.minicluster.site import CS, FRUGAL, queue_entries, write_site

VOCABULARY = 2_000
LINE_WORDS = 12
LINES = 4_000


def write_input(folder: Path, files: int, seed: int = 1) -> Counter[str]:
    """Write files of random words, the rarer the later they come in the alphabet.

    Returns:
        how often each word is in them.
    """
    folder.mkdir(parents=True)
    chance = random.Random(seed)  # noqa: S311 - sample text
    vocabulary = [f"word{number:04d}" for number in range(VOCABULARY)]
    weights = [1 / (rank + 1) for rank in range(VOCABULARY)]
    counts: Counter[str] = Counter()
    for number in range(files):
        words = chance.choices(vocabulary, weights, k=LINES * LINE_WORDS)
        counts.update(words)
        lines = (" ".join(words[start : start + LINE_WORDS]) for start in range(0, len(words), LINE_WORDS))
        (folder / f"part-{number}.txt").write_text("\n".join(lines) + "\n")
    return counts


def read_counts(folder: Path) -> Counter[str]:
    """Read what a job wrote: lines of a word, a tab and its count."""
    counts: Counter[str] = Counter()
    for part in sorted(folder.rglob("part-*")):
        for line in part.read_text().splitlines():
            word, _, count = line.rpartition("\t")
            counts[word] += int(count)
    return counts


ASK_S = 10.0
ENDED = ("FINISHED", "FAILED", "KILLED")
NOT_SUBMITTED = "NOT_SUBMITTED"


@dataclass
class RunningJob:
    """A submitted job and its last observed state; its containers are counted from the RM's audit log."""

    job: DemoJob
    client: subprocess.Popen[bytes]
    log: Path
    application_id: str = ""
    state: str = "SUBMITTING"
    seconds: float = 0.0
    containers: int = 0
    diagnostics: str = ""
    placed: dict[str, int] = field(default_factory=dict)
    engine: str = ""
    """The last observed of several engines that served it."""

    @property
    def ended(self) -> bool:
        """Whether the job has ended, in success or failure."""
        return self.state in ("SUCCEEDED", "FAILED", "KILLED", NOT_SUBMITTED)

    def update(self, application: dict[str, Any]) -> None:
        """Update the state from an RM report."""
        self.application_id = application["id"]
        self.seconds = application["elapsedTime"] / 1000
        self.diagnostics = application["diagnostics"].strip()
        ended = application["state"] in ENDED
        # an application that unregistered well is FINISHED, its final status says how its job ended
        self.state = (
            application["finalStatus"] if ended and application["state"] == "FINISHED" else application["state"]
        )

    @property
    def fault(self) -> str:
        """Return the deviations from the expected state; empty if there are none."""
        if self.state != "SUCCEEDED":
            return f"{self.job.name} ended as {self.state}"
        if self.containers == 0:
            return f"{self.job.name} has no container in the RM's audit log"
        by_treadle = self.placed.get("treadle", 0)
        if self.job.phase != "kill" and self.containers != by_treadle:
            return f"{self.job.name}: {counted(self.containers, 'container')}, of which Treadle placed {by_treadle}"
        return ""

    def as_json(self) -> dict[str, Any]:
        """Return what a report says of it; what no committer committed the CapacityScheduler has placed."""
        return {
            "name": self.job.name,
            "framework": self.job.framework,
            "state": self.state,
            "seconds": round(self.seconds, 1),
            "containers": self.containers,
            "placed_by_treadle": self.placed.get("treadle", 0),
            "placed_by_capacity_scheduler": self.placed.get("native", 0),
            "phase": self.job.phase,
            "queue": self.job.queue,
            "engine": self.engine,
        }


def submit(cluster: MiniCluster, job: DemoJob) -> RunningJob:
    """Submit a job; returns at once."""
    log = cluster.layout.logs / f"job-{job.name}.log"
    return RunningJob(job, cluster.submit(job.command(cluster), log), log)


def update(cluster: MiniCluster, jobs: list[RunningJob]) -> None:
    """Look at every job once; an RM that does not answer is asked again next time.

    An ended job keeps the last engine that has served it.
    """
    try:
        by_tag = {application["applicationTags"]: application for application in cluster.rm.applications()}
        placements = cluster.rm.placements()
    except requests.RequestException:
        return
    allocated, owners = cluster.containers(), roster_of(cluster).get("applications", {})
    for running in jobs:
        application = by_tag.get(running.job.name)
        if application is not None:
            running.update(application)
            running.containers = len(allocated.get(running.application_id, ()))
            running.placed = placements.get(running.application_id, {})
            running.engine = str(owners.get(running.application_id, ("", running.engine))[1])
        elif running.client.poll() is not None:
            running.state = NOT_SUBMITTED
            running.diagnostics = last_words(running.log)


def roster_of(cluster: MiniCluster) -> dict[str, Any]:
    """Return each of several engines, and who serves which application, as their sidecar says; empty if it does not."""
    config = cluster.settings.policy
    folder = None if config is None else state_folder(config.resolve())
    try:
        found = {} if folder is None else json.loads(ask_server(folder, {"engines": True}, ASK_S))
    except (OSError, ValueError):
        return {}
    return found if "error" not in found else {}


def wait_clients(jobs: list[RunningJob], timeout_s: float = 30.0) -> None:
    """Wait for clients to notice that their jobs have ended; what does not is left to the cluster's stop."""
    deadline = time.monotonic() + timeout_s
    for running in jobs:
        try:
            running.client.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            continue


def last_words(log: Path) -> str:
    """Return the last line of a client's output that mentions an error, or its last line."""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    errors = [line for line in lines if "Exception" in line or "ERROR" in line or "Error" in line]
    return (errors or lines or [""])[-1].strip()


_REJECTED = "Rejected"


@dataclass(frozen=True)
class Report:
    """The whole demo's end."""

    jobs: list[dict[str, Any]]
    rejected: int
    rejected_by_reason: dict[str, int]
    commits: int
    decide_ms: dict[str, float]
    lease_flips: int
    faults: list[str]
    engines: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Policy and number of commits of each of several engines, by name."""

    @classmethod
    def of(
        cls, jobs: list[RunningJob], bean: dict[str, Any], faults: list[str], engines: Mapping[str, dict[str, Any]] = {}
    ) -> Report:
        """Put the report together from the jobs, Treadle's metrics and those of several engines."""
        reasons = {
            key.removeprefix(_REJECTED): int(value)
            for key, value in bean.items()
            if key.startswith(_REJECTED) and key != _REJECTED and value
        }
        return cls(
            jobs=[running.as_json() for running in jobs],
            rejected=int(bean.get(_REJECTED, 0)),
            rejected_by_reason=reasons,
            commits=int(bean.get("Committed", 0)),
            decide_ms={name: bean.get(f"Decide{name.upper()}Us", 0) / 1000 for name in ("p50", "p99")},
            lease_flips=int(bean.get("LeaseFlips", 0)),
            faults=[running.fault for running in jobs if running.fault] + faults,
            engines={
                name: {"policy": str(each.get("policy", "")), "committed": int(each.get("committed", 0))}
                for name, each in engines.items()
            },
        )

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON takes it."""
        document = asdict(self)
        if not self.engines:
            del document["engines"]
            for job in document["jobs"]:
                del job["engine"]
        return document

    def show(self, console: Console) -> None:
        """Print the report."""
        counts = ("containers", "placed_by_treadle", "placed_by_capacity_scheduler")
        last = "engine" if self.engines else "phase"
        table = empty_table(
            "",
            ("job", "framework", "queue", "state"),
            ("seconds", "containers", "by Treadle", "by CapacityScheduler"),
            (last,),
        )
        for job in self.jobs:
            named = (job[name] for name in ("name", "framework", "queue", "state"))
            table.add_row(*named, f"{job['seconds']:.1f}", *(str(job[name]) for name in counts), job[last])
        console.print(table)
        for name, engine in self.engines.items():
            said = f"engine {name}: {counted(engine['committed'], 'commit')}; {engine['policy']}"
            console.print(said, highlight=False, soft_wrap=True)
        reasons = ", ".join(f"{name} {count}" for name, count in sorted(self.rejected_by_reason.items()))
        console.print(
            f"decide p50 {self.decide_ms['p50']:.2f} ms, p99 {self.decide_ms['p99']:.2f} ms; "
            f"{counted(self.commits, 'commit')}, {self.rejected} rejected{f' ({reasons})' if reasons else ''}; "
            f"lease flips {self.lease_flips}",
            highlight=False,
            soft_wrap=True,
        )
        for fault in self.faults:
            console.print(fault, style="red", highlight=False, soft_wrap=True)


# Some twenty JVMs start next to the engine on two cores, so it may not run for seconds.
LEASE_MS = 6_000
JOB_TIMEOUT_S = 420.0
INPUT_FILES = 4
POLL_S = 0.25
# The engine may be back before anything had to be placed: then it is killed again.
KILLS_MAX = 3

QUEUES: Final = {"production": 60, "research": 40}

Show = Callable[[list[RunningJob]], None]


def cluster_settings(
    folder: Path, capacities: Mapping[str, int], user_limit: int, policy: Path | None = None
) -> ClusterSettings:
    """Return a cluster whose queues may each use the rest of others; they are written to a file next to `folder`.

    Args:
        folder: of the cluster
        capacities: the guarantee of each queue in percent of its parent's, parents first
        user_limit: how many times a queue's guarantee a user may have
        policy: its treadle.yaml
    """
    entries = {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}maximum-am-resource-percent": "0.5",
        **queue_entries(capacities, user_limit),
    }
    file = folder.with_name(f"{folder.name}-queues.xml")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_site(file, entries)
    lease = {"yarn.scheduler.treadle.lease-ms": str(LEASE_MS)}
    return ClusterSettings(nodes=3, queues=file, policy=policy, overrides=lease)


class Demo:
    """One run of the demo on a started cluster."""

    def __init__(self, cluster: MiniCluster, say: Say, show: Show) -> None:
        self._cluster = cluster
        self._say = say
        self._show = show
        self._jobs: list[RunningJob] = []
        self._faults: list[str] = []

    def run(self) -> Report:
        """Run every phase.

        Raises:
            ClusterError: the cluster does not reach the expected state.
        """
        words = self._cluster.folder / "words"
        counts = write_input(words, INPUT_FILES)
        self._say("five jobs of three frameworks from two queues, together")
        for job in self._run_together(together(words, self._cluster.folder / "results")):
            if job.state == "SUCCEEDED" and job.job.output is not None and read_counts(job.job.output) != counts:
                self._faults.append(f"{job.job.name} counted other words than there are in its input")
        self._kill_phase(during_kill())
        return Report.of(self._jobs, self._cluster.rm.treadle(), self._faults)

    def run_engines(self) -> Report:
        """Run the jobs of two engines.

        Raises:
            ClusterError: an engine never serves its own applications.
        """
        self._say("waiting for the second engine")
        self._cluster.wait_for("engines that serve their own", self._at_home, START_S)
        jobs = of_two_engines()
        served = f"engine {PROD} serves root.prod, engine {REST} the rest"
        self._say(f"{len(jobs)} jobs from three queues, together; {served}")
        for job in self._run_together(jobs):
            if job.engine != job.job.engine:
                served = f"engine {job.engine}" if job.engine else "no engine"
                self._faults.append(f"{job.job.name} was served by {served} instead of {job.job.engine}")
        figures = roster_of(self._cluster).get("engines", {})
        engines = {name: figures.get(name, {}) for name in ENGINES}
        return Report.of(self._jobs, self._cluster.rm.treadle(), self._faults, engines)

    def _at_home(self) -> bool:
        shown = roster_of(self._cluster).get("engines", {})
        return {name: each["served_by"] for name, each in shown.items()} == {name: name for name in ENGINES}

    def _run_together(self, jobs: list[DemoJob]) -> list[RunningJob]:
        """Run jobs to their end."""
        running = [submit(self._cluster, job) for job in jobs]
        self._jobs += running
        self._follow(running)
        return running

    def _follow(self, running: list[RunningJob]) -> None:
        deadline = time.monotonic() + JOB_TIMEOUT_S
        while not all(job.ended for job in running):
            update(self._cluster, running)
            self._show(self._jobs)
            if time.monotonic() > deadline:
                slow = [job.job.name for job in running if not job.ended]
                self._faults.append(f"not ended within {JOB_TIMEOUT_S:g} s: {', '.join(slow)}")
                break
            time.sleep(POLL_S)
        wait_clients(running)
        update(self._cluster, running)
        self._show(self._jobs)
        for job in running:
            if job.ended and job.state != "SUCCEEDED":
                self._faults.append(f"{job.job.name}: {job.diagnostics or last_words(job.log)}")

    def _kill_phase(self, job: DemoJob) -> None:
        cluster = self._cluster
        self._say("now a job during which the engine's process is killed (SIGKILL)")
        running = submit(cluster, job)
        self._jobs.append(running)

        def placed(who: str, least: int) -> bool:
            update(cluster, [running])
            self._show(self._jobs)
            return running.ended or running.placed.get(who, 0) >= least

        # in the second wave of maps one ends every moment, and another wants its place
        cluster.wait_for("containers of the job", lambda: placed("treadle", 9), timeout_s=120, poll_s=POLL_S)
        for _ in range(KILLS_MAX):
            if running.ended or running.placed.get("native", 0):
                break
            before = cluster.sidecar_pid()
            psutil.Process(before).kill()
            self._say(f"killed the engine's process {before}: the stock scheduler carries on")
            cluster.wait_for("new engine's process", partial(self._replaced, before), timeout_s=120, poll_s=POLL_S)
            cluster.wait_for("lease held again", lambda: cluster.rm.treadle().get("LeaseHeld") == 1, 120, POLL_S)
            self._say(f"Treadle is back as process {cluster.sidecar_pid()}")
            update(cluster, [running])
        if not running.placed.get("native", 0):
            self._faults.append("the job ended before the stock scheduler had to place anything")
        self._say(f"the stock scheduler placed {running.placed.get('native', 0)} of the job's containers meanwhile")
        self._follow([running])

    def _replaced(self, before: int) -> bool:
        return any(pid != before for pid in self._cluster.sidecar_pids())


def run_demo(folder: Path, say: Say, show: Show, *, engines: bool) -> Report:
    """Start a cluster in `folder`, run the demo on it, of two engines or of one, and always stop it.

    Raises:
        ClusterError: the cluster does not start, or does not reach the expected state.
    """
    settings = cluster_of_engines(folder) if engines else cluster_settings(folder, QUEUES, 2)
    with MiniCluster(settings, folder, say) as cluster:
        demo = Demo(cluster, say, show)
        try:
            return demo.run_engines() if engines else demo.run()
        except requests.RequestException as error:
            raise ClusterError(f"the RM does not answer: {error}; its log is {cluster.layout.logs}/rm.log") from error


def shown_on(console: Console) -> Show:
    """Return what prints the jobs whose state has changed, once a state."""
    states: dict[str, str] = {}

    def show(jobs: list[RunningJob]) -> None:
        for running in jobs:
            if states.get(running.job.name) != running.state:
                states[running.job.name] = running.state
                text = f"{running.job.name} ({running.job.framework}, {running.job.queue}): {running.state}"
                console.print(text, highlight=False, soft_wrap=True)

    return show


PROD, REST = "prod", "rest"
"""Queues of several engines."""
ENGINES: Final = {PROD: "hdrf", REST: "slearn"}
"""The ready-made policy of each engine; the first serves root.prod."""

QUEUES_OF_ENGINES: Final = {"prod": 60, "research": 40, "prod.etl": 50, "prod.reports": 50}

START_S: Final = 300.0


def cluster_of_engines(folder: Path) -> ClusterSettings:
    """Return the demo's cluster; its queues and its treadle.yaml are written to files next to `folder`."""
    parts = {name: yaml.safe_load(ready_made()[each].read_text("utf-8"))["policy"] for name, each in ENGINES.items()}
    engines = {
        PROD: {"select": {"queues": ["root.prod"]}, "policy": parts[PROD], "fallback": REST},
        REST: {"policy": parts[REST], "fallback": PROD},
    }
    policy = folder.with_name(f"{folder.name}-treadle.yaml")
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text(yaml.safe_dump({"engines": engines}, sort_keys=False), encoding="utf-8")
    return cluster_settings(folder, QUEUES_OF_ENGINES, 4, policy)


SLEEP = "org.apache.hadoop.mapreduce.SleepJob"
WORD_COUNT = "org.apache.hadoop.examples.WordCount"
TEZ_WORD_COUNT = "org.apache.tez.examples.OrderedWordCount"
TEZ_SLEEP = "org.apache.tez.mapreduce.examples.MRRSleepJob"


@dataclass(frozen=True)
class DemoJob:
    """A job to submit.

    Attributes:
        name: how the demo calls it; also its YARN tag, by which its application is found.
        framework: MapReduce, Tez or Spark.
        queue: the queue it goes to.
        command: builds the command that submits it and waits for its end.
        output: a folder where it writes word counts, or None.
        phase: "run", or "kill" for the job during which the sidecar is killed.
        engine: of several engines the one that is to serve it.
    """

    name: str
    framework: str
    queue: str
    command: Callable[[MiniCluster], list[str]]
    output: Path | None = None
    phase: str = "run"
    engine: str = ""


def together(words: Path, results: Path) -> list[DemoJob]:
    """Return the jobs that run at the same time, from two queues."""
    counted, tez_counted, spark_counted = results / "wordcount", results / "tez-wordcount", results / "spark-wordcount"

    def spark(cluster: MiniCluster) -> list[str]:
        return spark_submit(cluster, "spark-wordcount", "production", str(words), str(spark_counted))

    tez_sleep = (*_sleep(4, 2, 500), "-ir", "3", "-irs", "1", "-irt", "500")
    return [
        _map_reduce("sleep", "production", SLEEP, *_sleep(8, 2, 1000)),
        _map_reduce("wordcount", "research", WORD_COUNT, str(words), str(counted), output=counted),
        _tez("tez-wordcount", "production", TEZ_WORD_COUNT, str(words), str(tez_counted), "2", output=tez_counted),
        _tez("tez-sleep", "research", TEZ_SLEEP, *tez_sleep),
        DemoJob("spark-wordcount", "Spark", "production", spark, spark_counted),
    ]


def of_two_engines() -> list[DemoJob]:
    """Return the jobs of a cluster on which one engine serves root.prod and another one the rest."""
    large = "-Dmapreduce.map.memory.mb=1024"
    tez_sleep = (*_sleep(3, 1, 1500), "-ir", "1", "-irs", "1", "-irt", "500")
    return [
        _map_reduce("reports", "reports", SLEEP, *_sleep(5, 1, 2000), engine=PROD),
        _map_reduce("etl", "etl", SLEEP, large, *_sleep(5, 1, 2000), engine=PROD),
        _map_reduce("long", "research", SLEEP, *_sleep(10, 1, 3000), engine=REST),
        _map_reduce("short", "research", SLEEP, *_sleep(4, 1, 1000), engine=REST),
        _tez("research-tez", "research", TEZ_SLEEP, *tez_sleep, engine=REST),
    ]


def during_kill() -> DemoJob:
    """Return the job during which the sidecar is killed: several waves of maps, so that one is always waiting."""
    options = ("-Dmapreduce.map.cpu.vcores=4",)
    return _map_reduce("sleep-kill", "production", SLEEP, *options, *_sleep(30, 1, 2500), phase="kill")


def _sleep(maps: int, reduces: int, milliseconds: int) -> list[str]:
    return ["-m", str(maps), "-r", str(reduces), "-mt", str(milliseconds), "-rt", str(milliseconds)]


def _map_reduce(name: str, queue: str, main: str, *arguments: str, **further: Any) -> DemoJob:
    options = (f"-Dmapreduce.job.queuename={queue}", f"-Dmapreduce.job.tags={name}")
    return DemoJob(name, "MapReduce", queue, lambda on: on.java(main, *options, *arguments), **further)


def _tez(name: str, queue: str, main: str, *arguments: str, **further: Any) -> DemoJob:
    options = (f"-Dtez.queue.name={queue}", f"-Dmapreduce.job.queuename={queue}", f"-Dtez.application.tags={name}")
    return DemoJob(name, "Tez", queue, lambda on: on.java(main, *options, *arguments), **further)


def spark_home() -> Path:
    """Return the folder of the installed PySpark.

    Raises:
        ClusterError: there is none.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ClusterError("PySpark is missing, which the demo submits a job with: pip install --group demo")
    return Path(spec.origin).parent


def spark_environment() -> list[str]:
    """Return the command that runs another one with what Spark needs in its environment on a mini cluster's host."""
    return ["/usr/bin/env", f"SPARK_HOME={spark_home()}", "SPARK_LOCAL_IP=127.0.0.1"]


def java_of_spark(cluster: MiniCluster) -> str:
    """Return the options of Spark's JVMs on a mini cluster."""
    return f"{FRUGAL} -Djdk.net.hosts.file={cluster.folder}/hosts"


def spark_options(cluster: MiniCluster, further: Mapping[str, str]) -> list[str]:
    """Return the options of a Spark application on a mini cluster: what each has, and what this one has further."""
    java = java_of_spark(cluster)
    settings = {
        # the jars are on every node already: nothing of some 450 MB is uploaded
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        "spark.yarn.stagingDir": f"file://{cluster.folder}/staging",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.pyspark.python": sys.executable,
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
        **further,
    }
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]


def spark_submit(cluster: MiniCluster, tag: str, queue: str, *arguments: str) -> list[str]:
    """Return the command that submits the PySpark job in cluster mode."""
    options = spark_options(
        cluster,
        {
            "spark.yarn.queue": queue,
            "spark.yarn.tags": tag,
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.report.interval": "500",
            "spark.executor.instances": "2",
        },
    )
    script = str(Path(__file__).with_name("spark_words.py"))
    submit = [*spark_environment(), str(spark_home() / "bin" / "spark-submit")]
    return [*submit, "--master", "yarn", "--deploy-mode", "cluster", *options, script, *arguments]
