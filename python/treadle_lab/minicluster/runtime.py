"""Where things lie: checkout or cache folder, the JDK, and the Hadoop runtime, gathered from Maven once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from treadle_lab.minicluster.settings import ClusterError

CHECKOUT: Final = Path(__file__).resolve().parents[3]


def checkout() -> Path | None:
    """Return the source checkout that this package runs from, or None if it was copied elsewhere."""
    return CHECKOUT if (CHECKOUT / "java-shim" / "pom.xml").is_file() else None


def build_folder() -> Path:
    """Where clusters, runtimes and results go by default: `build` in a checkout, else the user's cache folder."""
    root = checkout()
    if root is not None:
        return root / "build"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "treadle"


def runtime_pom() -> Path:
    """Return the Maven file that lists the Hadoop runtime."""
    return CHECKOUT / "java-shim" / "runtime" / "pom.xml"


def java_home() -> Path:
    """Return the JDK or JRE to run Hadoop with: JAVA_HOME, else that of the `java` on the PATH.

    Raises:
        ClusterError: there is none.
    """
    configured = os.environ.get("JAVA_HOME")
    if configured:
        if not (Path(configured) / "bin" / "java").is_file():
            raise ClusterError(
                f"JAVA_HOME is {configured}, but {configured}/bin/java does not exist; correct or unset it"
            )
        return Path(configured)
    java = shutil.which("java")
    if java is None:
        raise ClusterError("no `java` on the PATH; install a JDK 17 (Debian: apt-get install openjdk-17-jdk-headless)")
    return Path(java).resolve().parents[1]


def treadle_command() -> Path:
    """Return the `treadle` executable that belongs to the running Python, which the RM starts its sidecar with.

    Raises:
        ClusterError: it is not there.
    """
    beside = Path(sys.executable).parent / "treadle"
    if beside.is_file():
        return beside
    found = shutil.which("treadle")
    if found is None:
        raise ClusterError(f"no `treadle` command beside {sys.executable} nor on the PATH; install the package there")
    return Path(found)


COMPLETE = ".complete"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def runtime_folder(pom: Path | None = None, cache: Path | None = None) -> Path:
    """Where the runtime that `pom` lists is kept (whether or not it has been gathered).

    Args:
        pom: the Maven file; by default the project's.
        cache: the folder that holds runtimes; by default `runtime` in the build folder.
    """
    chosen = pom or runtime_pom()
    digest = hashlib.sha256(chosen.read_bytes()).hexdigest()[:16]
    return (cache or build_folder() / "runtime") / digest


def gather(say: Callable[[str], None] = lambda _: None, pom: Path | None = None, cache: Path | None = None) -> Path:
    """Return the folder with the runtime's jars; Maven fetches them if they are not there yet.

    An interrupted or failed attempt leaves nothing that a later one could mistake for a runtime, and two at a time do
    not disturb each other.

    Args:
        say: called with a line about each step that takes a while.
        pom: see `runtime_folder`.
        cache: see `runtime_folder`.

    Raises:
        ClusterError: Maven is missing or fails.
    """
    chosen = pom or runtime_pom()
    folder = runtime_folder(chosen, cache)
    if not (folder / COMPLETE).is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.parent / f".{folder.name}.lock"):
            if not (folder / COMPLETE).is_file():
                say("gathering the Hadoop runtime (some 210 jars, once)")
                _fetch(chosen, folder)
    return folder / "lib"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(pom: Path, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ClusterError("Maven is missing, which fetches the Hadoop runtime (Debian: apt-get install maven)")
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
        # Maven writes beside the pom's folder: let that be a copy's
        copy = Path(work) / "pom.xml"
        shutil.copy(pom, copy)
        command = [maven, "-B", "-ntp", "-q", "-f", str(copy), PLUGIN, "-DincludeScope=runtime"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={work}/runtime/lib"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line][:6]
            raise ClusterError("Maven could not gather the Hadoop runtime:\n" + "\n".join(lines))
        built = Path(work) / "runtime"
        (built / COMPLETE).touch()
        built.rename(folder)
