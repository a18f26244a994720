"""The check of the jars: which ones a ResourceManager's class path names, and of which release the shim's is."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from treadle import __version__
from treadle.admin.doctor.checks import Facts, Finding, text_of
from treadle.admin.jars import shim_jar
from treadle.errors import UserError

_NAMED: Final = re.compile(r"/[^\s:'\"=]*treadle-shim[^\s:'\"/]*\.jar")
_REQUIREMENTS: Final = re.compile(r"/[^\s:'\"=]*treadle-requirements[^\s:'\"/]*\.jar")
_RELEASE: Final = "META-INF/maven/io.treadle/treadle-shim/pom.properties"
_ALLOCATOR_KEY: Final = "yarn.scheduler.app-placement-allocator.class"
ALLOCATOR: Final = "io.treadle.shim.constraints.TreadlePlacementAllocator"
_AGAIN: Final = "run the `treadle install` of the release that you want"


def jar(facts: Facts) -> Iterator[Finding]:
    """Look whether the ResourceManager has one jar of Treadle's, that it is there, and of this release."""
    try:
        shim_jar()
    except UserError as error:
        yield Finding("fail", str(error), "install treadle again, from a wheel that carries the jar")
        return
    script = facts.conf / "yarn-env.sh" if facts.conf is not None else None
    text = text_of(script) if script is not None else ""
    named = list(dict.fromkeys(_in_script(text, _NAMED)))
    beside = _in_hadoop("treadle-shim-*.jar")
    for path in named:
        yield _judged(path, str(script), _AGAIN)
    for path in beside:
        yield _judged(path, "Hadoop's own folder", f"replace it by that of release {__version__}")
    if beside and (named or len(beside) > 1):
        first = named[0] if named else beside[1]
        yield Finding("warn", f"the class path has two jars: {first} and {beside[0]}", f"remove {beside[0]}")
    if not (named or beside):
        yield Finding("warn", "no jar of Treadle's is found on the class path", "treadle install")
    if facts.setting(_ALLOCATOR_KEY) == ALLOCATOR:
        yield from _requirements([*_in_script(text, _REQUIREMENTS), *_in_hadoop("treadle-requirements-*.jar")])


def _requirements(jars: list[Path]) -> Iterator[Finding]:
    """Without its class Hadoop places by an allocator of its own, and says so nowhere."""
    if not any(jar.is_file() for jar in jars):
        text = f"{_ALLOCATOR_KEY} is set, and its jar is not on the class path: requirements of nodes are not kept to"
        yield Finding("fail", text, "treadle install, and restart the ResourceManager")


def _in_hadoop(pattern: str) -> list[Path]:
    homes = [os.environ.get("HADOOP_YARN_HOME"), os.environ.get("HADOOP_HOME")]
    globbed = [sorted(Path(home).glob(f"share/hadoop/yarn/lib/{pattern}")) for home in homes if home]
    return list(dict.fromkeys(path for found in globbed for path in found))


def _judged(path: Path, where: str, remedy: str) -> Finding:
    if not path.is_file():
        return Finding("fail", f"{path}, by {where}, is not there", remedy)
    try:
        release = _release(path)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        return Finding("fail", f"{path}, by {where}, is no jar of Treadle's: {error}", remedy)
    if release != __version__:
        text = f"{path}, by {where}, is of release {release}, and this command of {__version__}"
        return Finding("fail", text, f"{remedy}, or use the `treadle` of release {release}")
    return Finding("ok", f"{path} of release {release}, by {where}")


def _release(path: Path) -> str:
    """Return the release that a jar says it is of; empty if it does not."""
    with zipfile.ZipFile(path) as files:
        lines = files.read(_RELEASE).decode("utf-8", "replace").splitlines()
    return next((line.partition("=")[2].strip() for line in lines if line.startswith("version=")), "")


def _in_script(text: str, jar: re.Pattern[str]) -> Iterator[Path]:
    for line in text.splitlines():
        if not line.lstrip().startswith("#"):
            yield from map(Path, jar.findall(line))
