"""Where things lie: the checkout if there is one, the user's cache folder otherwise, the shim's jar, the JDK."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from treadle.lab.minicluster.errors import ClusterError

PACKAGE = Path(__file__).resolve().parents[2]


def checkout() -> Path | None:
    """Return the source checkout that this package runs from, or None if it was installed from a wheel."""
    root = PACKAGE.parents[2]
    return root if (root / "java-shim" / "pom.xml").is_file() else None


def build_folder() -> Path:
    """Where clusters, runtimes and results go by default: `build` in a checkout, else the user's cache folder."""
    root = checkout()
    if root is not None:
        return root / "build"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "treadle"


def runtime_pom() -> Path:
    """Return the Maven file that lists the Hadoop runtime; a wheel carries it beside the shim's jar."""
    root = checkout()
    return root / "java-shim" / "runtime" / "pom.xml" if root else PACKAGE / "java" / "runtime-pom.xml"


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
    return Path(java).resolve().parents[2]


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
