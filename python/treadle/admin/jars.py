"""Where the jars are: the shim's, that of requirements, and those of the plug-ins for Tez and Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from treadle import __version__
from treadle.errors import UserError

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def shim_jar(package: Path = _PACKAGE, version: str = __version__) -> Path:
    """Return the path of the shim's jar: inside an installed package, or where Maven builds it in a checkout.

    Args:
        package: the folder of the package treadle
        version: its version

    Raises:
        UserError: there is none, or not of this version.
    """
    return _jar("shim", "treadle-shim", package, version)


def requirements_jar(package: Path = _PACKAGE, version: str = __version__) -> Path:
    """Return the path of the jar with `TreadlePlacementAllocator`; see `shim_jar`."""
    return _jar("requirements", "treadle-requirements", package, version)


def tez_jar(package: Path = _PACKAGE, version: str = __version__) -> Path:
    """Return the path of the jar for Tez application masters; see `shim_jar`."""
    return _jar("tez-plugin", "treadle-tez", package, version)


def spark_jar(package: Path = _PACKAGE, version: str = __version__) -> Path:
    """Return the path of the jar for Spark; see `shim_jar`."""
    return _jar("spark-plugin", "treadle-spark", package, version)


def _jar(module: str, name: str, package: Path, version: str) -> Path:
    carried = sorted((package / "java").glob(f"{name}-*.jar"))
    if len(carried) == 1:
        return carried[0]
    if carried:
        raise UserError(f"{package / 'java'} has {len(carried)} jars instead of one; install the wheel again")
    checkout = package.parent.parent
    if not (checkout / "java-shim" / "pom.xml").is_file():
        raise UserError(f"this installation carries no jar; install the wheel of treadle {version}, not its source")
    built = checkout / "java-shim" / module / "target" / f"{name}-{version}.jar"
    if not built.is_file():
        raise UserError(f"{built} is not there; build it with `make build`")
    return built
