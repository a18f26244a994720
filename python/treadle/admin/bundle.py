"""An archive for support with findings, logs, beans and settings, redacted with an allow-list.

From texts, only words that occur in Treadle's own messages, numbers and ids may leave the site; everything else is
hidden. A word is a piece between blanks, and is shown or hidden as a whole. In a line that names a secret, all text
after the name is hidden.
"""

from __future__ import annotations

import ast
import io
import json
import os
import platform
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import psutil
import yaml

from treadle import __version__
from treadle.admin.doctor import Result, managers_of
from treadle.admin.environment import needed_distributions
from treadle.admin.hadoop import BY_RESERVATIONS, KEYS, Facts, set_in_scripts
from treadle.admin.plan import CLASS_KEY, PREFIX
from treadle.admin.sidecars import sidecars
from treadle.config.yaml_nodes import YamlDocument
from treadle.errors import UserError, printable
from treadle.shipped import shim_jar
from treadle.sources import trees_behind

HIDDEN: Final = "<...>"

_ROOTS: Final = ("treadle.live", "treadle.admin.doctor")
"""Packages whose messages, with those of the modules they import, occur in logs, beans and findings."""

_COMMON: Final = (
    "debug info warn warning error fatal at by caused more common frames omitted none a an the of in is was and or not "
    "no with from since until "
    "traceback most recent call last file line ms s mib kib true false null active standby linux python treadle"
)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z']*")
_DIGITS_MAX: Final = 6
"""Maximum number of digits in a piece that is more than a number."""
_PIECE_MAX: Final = 200
_EDGES: Final = re.compile(r"^([\"'(\[{<]*)(.*?)([\"')\]}>,;:.!?]*)$", re.DOTALL)
_DIGITS: Final = (
    r"(?:\d{4}-\d\d-\d\d(?:[T_]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?)?|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"|\d{1,3}\.\d{1,3}\.\d{1,3}|\d{1,3}(?:,\d{3})+|\d{1,19}(?:[.,:/-]\d{1,19})?)"
)
"""A date, a time, a release, one number or two: no address of the network, which has four."""
_MEASURE: Final = re.compile(rf"[-+~#]?{_DIGITS}(?:ms|us|s|h|%|MiB|KiB|MB|GB|x)?")
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
"""What names a secret, so that what follows may be one."""


class Redactor:
    """Hides all words that are not known to be harmless."""

    def text(self, text: str) -> str:
        """Return a text of several lines with unknown words hidden."""
        return "\n".join(self.line(line) for line in text.split("\n"))

    def line(self, line: str) -> str:
        """Return one line with unknown words hidden; a line of a stack trace is returned unchanged."""
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
        match = _EDGES.match(piece)
        before, core, after = match.groups() if match else ("", piece, "")
        name, equals, value = core.partition("=")
        if equals:
            if not self._is_known(name):
                return f"{before}{HIDDEN}{after}"
            return f"{before}{name}={value if self._is_known(value) else HIDDEN}{after}"
        return f"{before}{core}{after}" if self._is_known(core) else f"{before}{HIDDEN}{after}"

    def plain(self, value: Any) -> Any:
        """Return a JSON value with its texts redacted; numbers stay, except those whose key names a secret."""
        if isinstance(value, dict):
            return {
                self.line(str(key)): HIDDEN if _SECRET.search(str(key)) else self.plain(each)
                for key, each in value.items()
            }
        if isinstance(value, list):
            return [self.plain(each) for each in value]
        return self.text(value) if isinstance(value, str) else value

    def _is_known(self, core: str) -> bool:
        if not core or _MEASURE.fullmatch(core) or _ID.fullmatch(core) or _CLASS.fullmatch(core):
            return True
        if len(core) > 80 or re.search(r"[^A-Za-z0-9_'./:,()\[\]{}<>*%+|#&-]", core):
            return False
        if re.search(r"[A-Za-z]\d+[A-Za-z]", core):
            return False  # letters and digits in turn: no word
        numbers = re.findall(r"\d(?:[\d.,:/_-]*\d)?", _WORD.sub(" ", core))
        if len("".join(numbers)) > _DIGITS_MAX or not all(_MEASURE.fullmatch(each) for each in numbers):
            return False
        return all(word.lower() in own_words() for word in _WORD.findall(core))


@cache
def own_words() -> frozenset[str]:
    """Return the words of Treadle's messages, by its sources and the shim's jar, in small letters."""
    words = set(_COMMON.split())
    for text in (*_python_texts(), *_java_texts()):
        words.update(word.lower() for word in _WORD.findall(text))
    return frozenset(words)


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


TAIL_BYTES: Final = 2 << 20
LINES_MAX: Final = 20_000
_AFTER_MAX: Final = 60
"""Lines that follow one of Treadle's in the ResourceManager's log, as those of a stack trace."""

SHOWN: Final = frozenset(
    {
        *(f"{PREFIX}{key}" for key in KEYS),
        *BY_RESERVATIONS,
        CLASS_KEY,
        "yarn.acl.enable",
        "yarn.http.policy",
        "yarn.node-labels.enabled",
        "yarn.resourcemanager.ha.enabled",
        "yarn.resourcemanager.monitor.capacity.preemption.intra-queue-preemption.enabled",
        "yarn.resourcemanager.monitor.capacity.preemption.observe_only",
        "yarn.resourcemanager.node-labels.am.allow-non-exclusive-allocation",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
        "yarn.resourcemanager.placement-constraints.handler",
        "yarn.resourcemanager.recovery.enabled",
        "yarn.resourcemanager.scheduler.monitor.enable",
        "yarn.resourcemanager.scheduler.monitor.policies",
        "yarn.resourcemanager.work-preserving-recovery.enabled",
        "yarn.scheduler.capacity.lazy-preemption-enabled",
        "yarn.scheduler.capacity.multi-node-placement-enabled",
        "yarn.scheduler.capacity.resource-calculator",
        "yarn.scheduler.capacity.schedule-asynchronously.enable",
        "yarn.scheduler.maximum-allocation-mb",
        "yarn.scheduler.maximum-allocation-vcores",
        "yarn.scheduler.minimum-allocation-mb",
    }
)
"""Keys whose values are shown."""

_QUEUE_NUMBER: Final = re.compile(
    r"(yarn\.scheduler\.capacity\.root)((?:\.[^.]+)*)\.((?:capacity|maximum-capacity|maximum-am-resource-percent"
    r"|user-limit-factor|minimum-user-limit-percent|maximum-applications|priority))"
)
_LABELS: Final = "accessible-node-labels"
_NUMBER: Final = re.compile(r"-?\d{1,10}(?:\.\d{1,6})?")
_BEANS: Final = re.compile(r"Treadle(?!Placements)[\w-]*")


def write_bundle(path: Path, facts: Facts, results: Sequence[Result]) -> list[str]:
    """Write an archive that only this user may read; return the names of its files.

    Raises:
        UserError: the file already exists, or cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise UserError(
            f"--bundle {path}: {error.strerror}; name a new file in a folder that you may write to"
        ) from error
    names = []
    try:
        with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
            os.fchmod(descriptor, 0o600)
            for name, text in _parts(facts, results, Redactor()):
                data, entry = text.encode("utf-8", "replace"), tarfile.TarInfo(f"treadle-bundle/{name}")
                entry.size, entry.mode = len(data), 0o600
                archive.addfile(entry, io.BytesIO(data))
                names.append(name)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return names


def _parts(facts: Facts, results: Sequence[Result], redactor: Redactor) -> Iterator[tuple[str, str]]:
    yield (
        "README.txt",
        (
            f"Treadle {__version__}, by `treadle doctor --bundle`. {HIDDEN} replaces all words but those that\n"
            "may leave a site: words of Treadle's messages, numbers, application ids, and the settings\n"
            "that docs/failures.md names. Read it before you send it.\n"
        ),
    )
    makers: tuple[tuple[str, Callable[[], str]], ...] = (
        ("findings.json", lambda: _json([redactor.plain(each.plain()) for each in results])),
        ("host.txt", lambda: _host(facts)),
        ("settings.txt", lambda: _settings(facts, redactor)),
        ("treadle.yaml", lambda: _treadle_yaml(facts, redactor)),
        ("beans.json", lambda: _beans(facts, redactor)),
        ("sidecar.log", lambda: redactor.text(_tail(_sidecar_log(facts)))),
        ("resourcemanager.log", lambda: redactor.text("\n".join(_of_treadle(_tail(_rm_log(facts)).split("\n"))))),
    )
    for name, make in makers:
        try:
            text = make()
        except Exception as error:  # the entry reports the error in place of its content
            text = f"not there: {type(error).__name__}: {redactor.line(str(error))}\n"
        yield name, text


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


def _host(facts: Facts) -> str:
    memory = psutil.virtual_memory()
    lines = [
        f"{platform.system()} {platform.release()} {platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        f"memory: {memory.total >> 20} MiB, {memory.available >> 20} MiB available",
        f"Python {platform.python_version()}",
        *(f"{each.metadata['Name']} {each.version}" for each in needed_distributions()),
        f"treadle {metadata.version('treadle')}",
    ]
    for process in sidecars(facts.users):
        with suppress(psutil.Error):
            memory_mib, threads = process.memory_info().rss >> 20, process.num_threads()
            lines.append(f"sidecar {process.pid}: {memory_mib} MiB, {threads} threads")
    return "\n".join([*lines, ""])


def _settings(facts: Facts, redactor: Redactor) -> str:
    """Return the settings on the list and numbers of queues, with a number for each name in a queue's path."""
    lines, names = [], dict[str, int]()
    for key, value in sorted(facts.settings.items()):
        of_queue = _QUEUE_NUMBER.fullmatch(key)
        if key in SHOWN:
            lines.append(f"{key} = {printable(' '.join(value.split()))}")
        elif of_queue and _NUMBER.fullmatch(value.strip()):
            path = [
                each if each == _LABELS else f"<{names.setdefault(each, len(names) + 1)}>"
                for each in of_queue[2].split(".")
                if each
            ]
            lines.append(f"{'.'.join([of_queue[1], *path, of_queue[3]])} = {value.strip()}")
    lines.append(f"{len(facts.settings) - len(lines)} other settings are set")
    return "\n".join([*lines, redactor.text(facts.trouble), ""])


def _treadle_yaml(facts: Facts, redactor: Redactor) -> str:
    if facts.config is None:
        return "no config.file is set\n"
    value = YamlDocument(str(facts.config), _text_of(facts.config)).value
    return yaml.safe_dump(_known_values(value, redactor), sort_keys=False)


def _known_values(value: Any, redactor: Redactor) -> Any:
    """Return a treadle.yaml's values: numbers, and texts that are one known word, as the kind of a part."""
    if isinstance(value, dict):
        return {
            redactor.piece(str(key)): HIDDEN if _SECRET.search(str(key)) else _known_values(each, redactor)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_known_values(each, redactor) for each in value]
    if isinstance(value, str):
        return value if re.fullmatch(r"[a-z_]{0,30}", value) and redactor.piece(value) == value else HIDDEN
    return value if isinstance(value, bool | int | float) or value is None else HIDDEN


def _beans(facts: Facts, redactor: Redactor) -> str:
    managers, failed = managers_of(facts)
    shown = [
        {
            "state": manager.state,
            "beans": {name: bean for name, bean in manager.beans.items() if _BEANS.fullmatch(name)},
        }
        for manager in managers
    ]
    for each in shown:
        for bean in each["beans"].values():  # type: ignore[attr-defined]
            for key, value in bean.items():
                with suppress(ValueError):
                    bean[key] = json.loads(value) if isinstance(value, str) and value.startswith("{") else value
    return _json(redactor.plain([*shown, *({"failed": each.text} for each in failed)]))


def _log_folder(facts: Facts) -> Path | None:
    """Return where the ResourceManager logs, by this process's environment or Hadoop's scripts."""
    for name in ("YARN_LOG_DIR", "HADOOP_LOG_DIR"):
        named = os.environ.get(name) or set_in_scripts(facts.conf, name)[0]
        if named:
            return Path(named)
    return None


def _sidecar_log(facts: Facts) -> Path | None:
    named = facts.setting(f"{PREFIX}sidecar.log-file")
    folder = _log_folder(facts)
    return Path(named) if named else None if folder is None else folder / "treadle-sidecar.log"


def _rm_log(facts: Facts) -> Path | None:
    folder = _log_folder(facts)
    if folder is None:
        return None
    files = [*folder.glob("*resourcemanager*.log"), *folder.glob("rm.log")]
    return max(files, key=lambda path: path.lstat().st_mtime, default=None)


def _tail(path: Path | None) -> str:
    """Return the end of a regular file.

    Raises:
        UserError: the path is unknown.
    """
    if path is None:
        raise UserError("no log is known: set YARN_LOG_DIR to the ResourceManager's log folder")
    return _text_of(path)


def _text_of(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path} is not a regular file")
        stream.seek(max(0, status.st_size - TAIL_BYTES))
        lines = stream.read(TAIL_BYTES).decode("utf-8", "replace").split("\n")
    return "\n".join(lines[-LINES_MAX:] if status.st_size <= TAIL_BYTES else lines[1:][-LINES_MAX:])


def _of_treadle(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a ResourceManager's log that are Treadle's, with the stack traces that follow them."""
    follows = 0
    for line in lines:
        if re.match(r"\d{4}-\d\d-\d\d", line):
            follows = _AFTER_MAX if "treadle" in line.lower() else 0
        if follows:
            follows -= 1
            yield line
