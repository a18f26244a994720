"""The content of the wheel: ready-made policies, examples, templates of an administrator's files, and jars."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import treadle
from treadle import __version__
from treadle.errors import UserError, unknown

HEAD: Final = ("title", "use when", "requires", "evidence")
"""The fields at the head of a ready-made policy's file. Evidence is ``POINT; FIGURE`` of docs/gains.md, or
``building block``."""
TRY_ORDER: Final = (
    *("fair-finish", "fair", "capacity", "fifo", "srpt", "slearn", "slearn-history", "hdrf", "hdrf-srpt", "drf"),
    *("tetris", "graphene", "phoenix", "mapreduce-workers"),
)
"""The ready-made policies in the order in which one should try them; the first one is recommended."""

_PACKAGE: Final = Path(treadle.__file__).resolve().parent


def policies_folder() -> Path:
    """Return the folder of the ready-made policies: of the package, or of the sources that it runs from."""
    return _folder("policies", "conf/policies")


def ready_made() -> dict[str, Path]:
    """Return the files of the ready-made policies by name."""
    return _files(policies_folder())


def examples() -> dict[str, Path]:
    """Return the files of the example scenarios by name; the package lacks those of the traces in ``data``."""
    return _files(_folder("examples", "docs/examples/simulate"))


def _folder(name: str, source: str) -> Path:
    return _PACKAGE / name if (_PACKAGE / name).is_dir() else _PACKAGE.parents[1] / source


def _files(folder: Path) -> dict[str, Path]:
    return {file.stem: file for file in sorted(folder.glob("*.yaml"), key=lambda file: file.stem)}


def find_example(wanted: str) -> Path:
    """Return the file of an example scenario.

    Raises:
        UserError: there is no example of this name.
    """
    known = examples()
    if wanted not in known:
        raise UserError(f"--example: {unknown(wanted, known)}")
    return known[wanted]


def templates() -> Path:
    """Return the folder with templates of yarn-site.xml, treadle.yaml and systemd units, from package or sources.

    Raises:
        UserError: the package has none.
    """
    for folder in (_PACKAGE / "conf", _PACKAGE.parents[1] / "conf"):
        if (folder / "yarn-site-treadle.xml").is_file():
            return folder
    raise UserError(f"{_PACKAGE} carries no templates of configuration; install the package again")


def ready_made_with(kinds: str) -> list[str]:
    """Return the names of the ready-made policies with these kinds of parts, as in a status.

    A status has no parameters: all policies that differ only in these are returned.
    """
    return [name for name, file in ready_made().items() if _kinds(file) == kinds]


def _kinds(file: Path) -> str:
    """Return the kinds of the parts of a ready-made policy, without loading the parts."""
    import yaml  # imported only here, as the next: they take longer than all else that names a file

    from treadle.config.parts import DEFAULTS, PART_KINDS

    chosen = yaml.safe_load(file.read_text("utf-8"))["policy"]
    return " ".join(f"{part}={chosen.get(part, {}).get('kind', DEFAULTS[part])}" for part in PART_KINDS)


def about(file: Path) -> dict[str, str]:
    """Return the entries of `HEAD` of a ready-made policy, from lines such as ``# use when: nodes differ``.

    Raises:
        KeyError: one is missing.
    """
    found = dict(re.findall(r"^# ([a-z ]+): (.+)$", file.read_text("utf-8"), re.MULTILINE))
    return {field: found[field] for field in HEAD}


def find_policy(wanted: str, folder: Path = Path(), where: str = "") -> Path:
    """Return the file of a ready-made policy by name or path; a file with such a name needs ``./NAME``.

    Args:
        wanted: the name or path
        folder: base of a relative path
        where: the file and field that name it, for errors

    Raises:
        UserError: there is neither.
    """
    known, file = ready_made(), folder / wanted
    if wanted in known:
        return known[wanted]
    if file.is_file() or file.suffix or "/" in wanted:
        return file
    place = where and f"{where}: "
    raise UserError(f"{place}no file {file}, and as a ready-made policy {unknown(wanted, known)}")


def shim_jar() -> Path:
    """Return the path of the shim's jar: inside an installed package, or Maven's output in a checkout.

    Raises:
        UserError: there is none of this version.
    """
    return _jar("shim", "treadle-shim")


def requirements_jar() -> Path:
    """Return the path of the jar with `TreadlePlacementAllocator`; see `shim_jar`."""
    return _jar("requirements", "treadle-requirements")


def tez_jar() -> Path:
    """Return the path of the jar for Tez application masters; see `shim_jar`."""
    return _jar("tez-plugin", "treadle-tez")


def spark_jar() -> Path:
    """Return the path of the jar for Spark; see `shim_jar`."""
    return _jar("spark-plugin", "treadle-spark")


def _jar(module: str, name: str) -> Path:
    carried = sorted((_PACKAGE / "java").glob(f"{name}-*.jar"))
    if len(carried) == 1:
        return carried[0]
    if carried:
        raise UserError(f"{_PACKAGE / 'java'} has {len(carried)} jars instead of one; install the wheel again")
    checkout = _PACKAGE.parents[1]
    if not (checkout / "java-shim" / "pom.xml").is_file():
        raise UserError(f"this installation carries no jar; install the wheel of treadle {__version__}, not its source")
    built = checkout / "java-shim" / module / "target" / f"{name}-{__version__}.jar"
    if not built.is_file():
        raise UserError(f"{built} is not there; build it with `make build`")
    return built
