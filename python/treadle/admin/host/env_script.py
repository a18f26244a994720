"""The lines in yarn-env.sh that put the shim's jar, and that of requirements, on the ResourceManager's class path."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

_BEGIN: Final = "# treadle: begin. Written by treadle install; treadle uninstall takes it out."
_JOINED: Final = " The line before it had no end."
_END: Final = "# treadle: end"
_BLOCK: Final = re.compile(
    rf"(\n)?{re.escape(_BEGIN)}({re.escape(_JOINED)})?\n.*?^{re.escape(_END)}$\n?".encode(), re.DOTALL | re.MULTILINE
)

REQUIREMENTS: Final = "treadle-requirements.jar"
"""Beside the shim's jar. Hadoop reads it only where `TreadlePlacementAllocator` is set."""

_NAMED: Final = re.compile(rb'export HADOOP_CLASSPATH=(.*?)"\$\{HADOOP_CLASSPATH')


def with_jar(data: bytes, jar: Path) -> bytes:
    """Return a yarn-env.sh that has both jars on the class path of the ResourceManager, and of nothing else.

    Hadoop's scripts keep a command's words in HADOOP_USER_PARAMS; where other ones do not, every command gets the jars,
    which do nothing there.

    Args:
        data: a yarn-env.sh
        jar: the shim's jar
    """
    data = without_jar(data)
    joined = bool(data) and not data.endswith(b"\n")
    jars = shlex.quote(f"{jar}:{jar.with_name(REQUIREMENTS)}")
    lines = [
        _BEGIN + (_JOINED if joined else ""),
        'case " ${HADOOP_USER_PARAMS[*]-resourcemanager} " in',
        '  *" resourcemanager "*)',
        f'    export HADOOP_CLASSPATH={jars}"${{HADOOP_CLASSPATH:+:${{HADOOP_CLASSPATH}}}}" ;;',
        "esac",
        _END,
        "",
    ]
    return data + (b"\n" if joined else b"") + "\n".join(lines).encode()


def without_jar(data: bytes) -> bytes:
    """Return a yarn-env.sh without our lines; the rest as it is."""

    def instead(found: re.Match[bytes]) -> bytes:
        return b"" if found[2] or not found[1] else b"\n"

    return _BLOCK.sub(instead, data, count=1)


def jar_in(data: bytes) -> Path | None:
    """Return the shim's jar that our lines in a yarn-env.sh name; None without them, or if others have changed them."""
    block = _BLOCK.search(data)
    named = None if block is None else _NAMED.search(block[0])
    try:
        words = [] if named is None else shlex.split(named[1].decode("utf-8", "replace"))
    except ValueError:  # a quotation without an end
        return None
    return Path(words[0].partition(":")[0]) if words else None
