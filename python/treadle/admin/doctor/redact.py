"""What of a text may leave the site: words that Treadle's own messages are made of, numbers and ids, nothing else.

An allow-list: what nobody thought of is hidden. A word is a piece between blanks, and is shown whole or not at all. In
a line that names a secret, all that follows the name is hidden.
"""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from treadle.admin.jars import shim_jar
from treadle.errors import UserError, printable
from treadle.sources import trees_behind

HIDDEN: Final = "<...>"

_ROOTS: Final = ("treadle.live", "treadle.admin.doctor")
"""The packages whose messages, and those of what they import, stand in logs, beans and findings."""

_COMMON: Final = (
    "debug info warn warning error fatal at by caused more common frames omitted none a an the of in is was and or not "
    "no with from since until "
    "traceback most recent call last file line ms s mib kib true false null active standby linux python treadle"
)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z']*")
_DIGITS_MAX: Final = 6
"""Of a piece that is more than a number."""
_PIECE_MAX: Final = 200
_EDGES: Final = re.compile(r"^([\"'(\[{<]*)(.*?)([\"')\]}>,;:.!?]*)$", re.DOTALL)
_DIGITS: Final = (
    r"(?:\d{4}-\d\d-\d\d(?:[T_]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?)?|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"|\d{1,3}\.\d{1,3}\.\d{1,3}|\d{1,3}(?:,\d{3})+|\d{1,19}(?:[.,:/-]\d{1,19})?)"
)
"""A date, a time, a release, one number or two: no address of the network, which has four."""
_NUMBER: Final = re.compile(rf"[-+~#]?{_DIGITS}(?:ms|us|s|h|%|MiB|KiB|MB|GB|x)?")
_ID: Final = re.compile(r"(?:application|appattempt|container|job|task)(?:_e?\d{1,20}){1,6}")
_FRAME: Final = re.compile(
    r"\s*(?:at )?(?:[\w.]{1,40}(?:@[\w.]{1,20})?//?)?"
    r"(?:org\.apache\.hadoop|java|javax|jdk|sun|com\.sun|io\.treadle|io\.netty|org\.eclipse\.jetty|com\.google)"
    r"(?:\.[\w$<>]{1,100}){1,30}\((?:Native Method|Unknown Source|[A-Z]\w{0,80}\.java(?::\d{1,6})?)\)\s*"
)
_CLASS: Final = re.compile(r"(?:org\.apache\.hadoop|java|javax|io\.treadle)(?:\.[a-z]\w{0,80}){0,20}\.[A-Z][\w$]{0,80}")
_SECRET: Final = re.compile(
    r"(?i)pass(?:word|wd|phrase|code)|secret|token|credential|auth|bearer|cookie|key|private|signature|digest|salt|nonce"
    r"|(?<![a-z])(?:pass|pwd|pw|pin|otp)(?![a-z])"
)


def names_secret(text: str) -> bool:
    """Does a text name a secret, so that what follows may be one?"""
    return _SECRET.search(text) is not None


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
        named = _SECRET.search(line)
        if named:
            begin = line.rfind(" ", 0, named.start()) + 1
            return f"{self.line(line[:begin])}{named[0]} {HIDDEN}"
        return "".join(self.piece(each) if each.strip() else each for each in re.split(r"( +)", line))

    def piece(self, piece: str) -> str:
        """Return a piece between blanks if all of it is known; of ``name=value`` the value only with its name."""
        if len(piece) > _PIECE_MAX:
            return HIDDEN
        found = _EDGES.match(piece)
        before, core, after = found.groups() if found else ("", piece, "")
        name, equals, value = core.partition("=")
        if equals:
            if not self._is_known(name):
                return f"{before}{HIDDEN}{after}"
            return f"{before}{name}={value if self._is_known(value) else HIDDEN}{after}"
        return f"{before}{core}{after}" if self._is_known(core) else f"{before}{HIDDEN}{after}"

    def plain(self, value: Any) -> Any:
        """Return what JSON holds with its texts redacted; numbers stay, but for those that are called a secret."""
        if isinstance(value, dict):
            return {
                self.line(str(key)): HIDDEN if names_secret(str(key)) else self.plain(each)
                for key, each in value.items()
            }
        if isinstance(value, list):
            return [self.plain(each) for each in value]
        return self.text(value) if isinstance(value, str) else value

    def _is_known(self, core: str) -> bool:
        if not core or _NUMBER.fullmatch(core) or _ID.fullmatch(core) or _CLASS.fullmatch(core):
            return True
        if len(core) > 80 or re.search(r"[^A-Za-z0-9_'./:,()\[\]{}<>*%+|#&-]", core):
            return False
        if re.search(r"[A-Za-z]\d+[A-Za-z]", core):
            return False  # letters and digits in turn: no word
        numbers = re.findall(r"\d(?:[\d.,:/_-]*\d)?", _WORD.sub(" ", core))
        if len("".join(numbers)) > _DIGITS_MAX or not all(_NUMBER.fullmatch(each) for each in numbers):
            return False
        return all(word.lower() in self._words for word in _WORD.findall(core))


@cache
def own_words() -> frozenset[str]:
    """Return the words of Treadle's own messages, by its sources and the shim's jar, in small letters."""
    found = set(_COMMON.split())
    for text in (*_python_texts(), *_java_texts()):
        found.update(word.lower() for word in _WORD.findall(text))
    return frozenset(found)


def _python_texts() -> Iterator[str]:
    for file, tree in trees_behind(*_ROOTS).items():
        yield file.stem
        for node in ast.walk(tree):
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
