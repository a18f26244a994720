"""Where the classes of a simulation come from: Hadoop's runtime and our simulator module."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from rich.console import Console

from treadle_lab.minicluster.runtime import gather
from treadle_lab.sls.load import BenchError

REPOSITORY: Final = Path(__file__).resolve().parents[3]
"""The checkout; the benchmark is run from one."""

_PARTS: Final = ("shim", "plan-client", "sls")
"""Modules whose jars a simulation needs."""
_SLS_JAR: Final = "hadoop-sls-*.jar"


def java_command() -> str:
    """Return the java of JAVA_HOME, else of the path; raise BenchError if there is none."""
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home) / "bin" / "java" if home else None
    found = str(candidate) if candidate and candidate.exists() else shutil.which("java")
    if found is None:
        raise BenchError("no java found: install a JDK 17 (Debian: apt install openjdk-17-jdk-headless)")
    return found


def class_path(runtime: Path | None) -> list[Path]:
    """Jars and wildcard folders for the simulation, ours first.

    `runtime` is a folder of jars of Hadoop with its simulator; None takes the one that the mini cluster gathers.
    Raise BenchError if something is missing and says how to get it.
    """
    folder = runtime if runtime is not None else _gathered_runtime()
    if not folder.is_dir() or not any(folder.glob(_SLS_JAR)):
        raise BenchError(f"--runtime {folder}: no {_SLS_JAR} there; a folder of Hadoop's jars is expected")
    return [*own_jars(), folder / "*"]


def _gathered_runtime() -> Path:
    return gather(Console(stderr=True).print)


def own_jars() -> list[Path]:
    """Return the shim and the simulator module, built if their sources are newer."""
    module = REPOSITORY / "java-shim"
    if not (module / "sls" / "pom.xml").exists():
        raise BenchError("treadle bench needs a checkout of the project: java-shim/sls is not there")
    sources = [*module.glob("*/src/main/**/*.java"), *module.glob("**/pom.xml")]
    newest = max(path.stat().st_mtime for path in sources)
    jars = [_built(module / part, f"treadle-{part}") for part in _PARTS]
    if any(jar is None or jar.stat().st_mtime < newest for jar in jars):
        _build(module)
        jars = [_built(module / part, f"treadle-{part}") for part in _PARTS]
    found = [jar for jar in jars if jar is not None]
    if len(found) != len(jars):
        raise BenchError(f"Maven built no jar in some of {', '.join(f'{module}/{part}/target' for part in _PARTS)}")
    return found


def _built(module: Path, name: str) -> Path | None:
    jars = [jar for jar in module.glob(f"target/{name}-*.jar") if "original" not in jar.name]
    return max(jars, key=lambda jar: jar.stat().st_mtime, default=None)


def _build(module: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BenchError("no mvn found: install Maven (Debian: apt install maven)")
    goals = ("-pl", "sls", "-am", "package", "-Dmaven.test.skip=true")
    command = [maven, "-q", "-B", "-ntp", "-f", str(module / "pom.xml"), *goals]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"Maven could not build java-shim/sls:\n{(done.stdout + done.stderr)[-3000:]}")
