"""Part fuzz: parsers of ours against made-up bytes: both codecs, the plan listener, treadle.yaml, histories.

The oracles are the fuzzers' own (atheris for Python, Jazzer for Java, both libFuzzer inside): an exception of the wrong
kind or a death is a crash, ten seconds for one input a hang, 2 GB of memory growth. What a slice has learned of a
parser, its corpus, stays in build/campaign/corpus and is where the next slice goes on.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

from tests.campaign.fuzz_seeds import ROOT, SEEDS
from tests.campaign.slices import Slice

from treadle.shipped import shim_jar
from treadle_lab.minicluster.settings import gather

FOLDER = ROOT / "build" / "campaign"
HANG_S = 10
MEMORY_MB = 2048
HEAP_MB = 600
"""Of the JVM, which it fills before it collects."""

JAZZER = "0.24.0"
M2 = Path.home() / ".m2" / "repository" / "com" / "code-intelligence"


def fuzz(target: str, seconds: float, mutant: str = "", memory_mb: int = 0) -> str:
    """Fuzz a target for some seconds; returns what was found, in words, or the empty string."""
    corpus = FOLDER / "corpus" / (target + mutant)
    artifacts = FOLDER / "artifacts" / (target + mutant)
    for folder in (corpus, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS[target]:
        shutil.copy(seed, corpus / f"seed-{seed.name}")
    options = [f"-max_total_time={max(1, seconds):.0f}", f"-timeout={HANG_S}"]
    options += [f"-artifact_prefix={artifacts}/", "-print_final_stats=1", "-max_len=65536", str(corpus)]
    limit_mb = memory_mb or MEMORY_MB + (HEAP_MB if target == "reply" else 0)
    options.append(f"-rss_limit_mb={limit_mb}")
    own = [*_jazzer(mutant), f"--reproducer_path={artifacts}"] if target == "reply" else _atheris(target, mutant)
    done = subprocess.run([*own, *options], cwd=ROOT, capture_output=True, text=True, timeout=seconds + 300)
    told = done.stdout + done.stderr
    (artifacts / "last.log").write_text(told)
    if done.returncode == 0:
        return ""
    told_of = [line for line in told.splitlines() if not line.startswith("INFO:")]
    lines = [line for line in told_of if any(sign in line for sign in ("ERROR", "Exception", "Error:", "=="))]
    return f"{target}: code {done.returncode}; {' | '.join(lines[:6])}; artifacts in {artifacts.relative_to(ROOT)}"


def _atheris(target: str, mutant: str) -> list[str]:
    return [sys.executable, "-m", "tests.campaign.fuzz_target", target, *([mutant] if mutant else []), "--"]


def _jazzer(mutant: str) -> list[str]:
    jars = [M2 / name / JAZZER / f"{name}-{JAZZER}.jar" for name in ("jazzer", "jazzer-api")]
    if not all(jar.is_file() for jar in jars):
        get = ["mvn", "-B", "-ntp", "-q", "dependency:get", f"-Dartifact=com.code-intelligence:jazzer:{JAZZER}"]
        subprocess.run(get, cwd=FOLDER, check=True, timeout=600)
    classes = FOLDER / "fuzz-classes"
    classes.mkdir(parents=True, exist_ok=True)
    classpath = ":".join(map(str, (classes, *jars, shim_jar(), f"{gather()}/*")))
    source = ROOT / "tests" / "campaign" / "ReplyFuzz.java"
    subprocess.run(["javac", "-d", str(classes), "-cp", classpath, str(source)], check=True, timeout=300)
    own = ["--target_class=io.treadle.shim.link.ReplyFuzz", "--instrumentation_includes=io.treadle.**"]
    # Jazzer's own --jvm_args is for its launcher, which is not used here
    planted = f"-Dtreadle.fuzz.mutant={str(bool(mutant)).lower()}"
    return ["java", f"-Xmx{HEAP_MB}m", planted, "-cp", classpath, "com.code_intelligence.jazzer.Jazzer", *own]


def run(work: Slice) -> None:
    """Fuzz each target for its share of the slice."""
    targets = [name for name in SEEDS if (work.options.get("only") or "") in name]
    share_s = work.left_s / len(targets)
    for target in targets:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if found := fuzz(target, share_s):
            work.find(found)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        work.add(f"cpu_seconds_{target}", round(cpu_s))
        work.add("cpu_seconds", round(cpu_s))
        work.say(f"{work.elapsed_s:5.0f} s  {target}: {cpu_s:.0f} s of CPU time")
