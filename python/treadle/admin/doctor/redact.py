"""What of a text may leave the site: words that Treadle's own messages are made of, numbers and ids, nothing else.

An allow-list: what nobody thought of is hidden. A word is a piece between blanks, and is shown whole or not at all.
"""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from treadle.admin.jars import shim_jar
from treadle.errors import UserError, printable

HIDDEN: Final = "<...>"

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_ROOMS: Final = (
    "am",
    "compiled",
    "config",
    "constraints",
    "engine",
    "explain",
    "history",
    "live",
    "model",
    "planner",
    "policy",
    "wire",
    "admin/doctor",
)
"""Those whose messages stand in logs, beans and findings."""

_COMMON: Final = (
    "debug info warn warning error fatal at by caused more common frames omitted daemon prio os_prio cpu elapsed tid "
    "nid runnable waiting on condition object monitor to lock locked parking for thread state java lang none sleeping "
    "new timed_waiting blocked terminated allocated park wait a an the of in is was and or not no with from since "
    "until "
    "traceback most recent call last file line ms s mib kib true false null active standby linux python treadle"
)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z']*")
_EDGES: Final = re.compile(r"^([\"'(\[{<]*)(.*?)([\"')\]}>,;:.!?]*)$", re.DOTALL)
_NUMBER: Final = re.compile(r"[-+~#]?(?:\d[\d.,:/TZ_-]{0,30}|0x[0-9a-f]{1,16})(?:ms|us|s|h|%|MiB|KiB|MB|GB|x)?")
_ID: Final = re.compile(r"(?:application|appattempt|container|job|task)(?:_e?\d{1,20}){1,6}")
_FRAME: Final = re.compile(
    r"\s*(?:at )?(?:[\w.]{1,40}(?:@[\w.]{1,20})?//?)?"
    r"(?:org\.apache\.hadoop|java|javax|jdk|sun|com\.sun|io\.treadle|io\.netty|org\.eclipse\.jetty|com\.google)"
    r"(?:\.[\w$<>]{1,100}){1,30}\([\w$. ]{1,100}(?::\d{1,6})?\)\s*"
)
_CLASS: Final = re.compile(r"(?:org\.apache\.hadoop|java|javax|io\.treadle|treadle)(?:\.[\w$]{1,80}){1,20}")
_SECRET: Final = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)?|secret|token|credential|authorization|bearer|cookie|key|private|signature)s?\W*"
)


class Redactor:
    """Hides whatever is not known to be harmless."""

    def __init__(self, words: Iterable[str] | None = None) -> None:
        """Take the words that may be shown; those of Treadle's own messages if left out."""
        self._words = frozenset(words if words is not None else own_words())

    def text(self, text: str) -> str:
        """Return a text of several lines with what is not known hidden."""
        return "\n".join(self.line(line) for line in text.split("\n"))

    def line(self, line: str) -> str:
        """Return one line with what is not known hidden; a line of a stack trace is shown as it is."""
        line = printable(line)
        if _FRAME.fullmatch(line):
            return line
        shown, hides = [], 0
        for piece in re.split(r"( +)", line):
            if not piece.strip():
                shown.append(piece)
                continue
            shown.append(HIDDEN if hides else self.piece(piece))
            # what follows such a word is what it names, with a word or two between them
            hides = 3 if _SECRET.fullmatch(piece) else max(0, hides - 1)
        return "".join(shown)

    def piece(self, piece: str) -> str:
        """Return a piece between blanks if all of it is known; of ``name=value`` each half is judged."""
        found = _EDGES.match(piece)
        before, core, after = found.groups() if found else ("", piece, "")
        name, equals, value = core.partition("=")
        if equals:
            hides = bool(_SECRET.search(name)) or not self._is_known(value)
            return f"{before}{name if self._is_known(name) else HIDDEN}={HIDDEN if hides and value else value}{after}"
        return f"{before}{core}{after}" if self._is_known(core) else f"{before}{HIDDEN}{after}"

    def plain(self, value: Any) -> Any:
        """Return what JSON holds with its texts redacted; numbers stay."""
        if isinstance(value, dict):
            return {self.line(str(key)): self.plain(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.plain(each) for each in value]
        return self.text(value) if isinstance(value, str) else value

    def _is_known(self, core: str) -> bool:
        if not core or _NUMBER.fullmatch(core) or _ID.fullmatch(core) or _CLASS.fullmatch(core):
            return True
        if len(core) > 80 or re.search(r"[^A-Za-z0-9_'./:,()\[\]{}<>*%+|#&-]", core):
            return False
        rest = _WORD.sub("", core)
        if len(re.findall(r"\d", rest)) > 6:
            return False  # letters and digits in turn: no word
        return all(word.lower() in self._words for word in _WORD.findall(core)) and not re.search(
            r"[A-Za-z]\d+[A-Za-z]", core
        )


@cache
def own_words() -> frozenset[str]:
    """Return the words of Treadle's own messages, by its sources and the shim's jar, in small letters."""
    found = set(_COMMON.split())
    for text in (*_python_texts(), *_java_texts()):
        found.update(word.lower() for word in _WORD.findall(text))
    return frozenset(found)


def _python_texts() -> Iterator[str]:
    for room in _ROOMS:
        for file in sorted((_PACKAGE / room).rglob("*.py")):
            yield file.stem
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def _java_texts() -> Iterator[str]:
    """Yield the texts in the shim's class files: those of messages, and names of its classes and members."""
    try:
        with zipfile.ZipFile(shim_jar()) as files:
            for name in files.namelist():
                if name.startswith(("io/treadle/shim/", "org/")) and name.endswith(".class"):
                    yield from _constants(files.read(name))
    except (UserError, OSError, zipfile.BadZipFile):
        return


def _constants(data: bytes) -> Iterator[str]:
    """Yield the texts of a class file's constant pool (JVMS 4.4)."""
    sizes = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
    at, index, count = 10, 1, int.from_bytes(data[8:10], "big")
    while index < count:
        tag = data[at]
        if tag == 1:
            length = int.from_bytes(data[at + 1 : at + 3], "big")
            yield data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            at += 1 + sizes[tag]
            index += tag in (5, 6)
        index += 1
