"""The changes that an installation would make, and the record of those it made, so that they can be undone."""

from __future__ import annotations

import difflib
import errno
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter

from treadle import __version__
from treadle.admin.environment import JAR, RECORD, Contents, is_intact, sha256
from treadle.admin.site_files import (
    BYTES_MAX,
    INCLUDE,
    OWN_SITE,
    Setting,
    including,
    jar_in,
    own_site,
    parse_site,
    read_site,
    settings_of,
    with_include,
    with_jar,
)
from treadle.config.reader import read_section
from treadle.config.settings import Kernels
from treadle.config.trust import reason_against, state_folders, trusted_owners
from treadle.errors import UserError
from treadle.files import own_as, read_regular, write_whole
from treadle.shipped import templates

NAME: Final = "installed.json"
FORMAT: Final = 2

Kind = Literal["site", "settings", "env", "own"]
"""A yarn-site.xml, a treadle-site.xml, a yarn-env.sh, or another file that is Treadle's alone."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The record of a file's changes."""

    path: Path
    kind: Kind
    before: str
    """SHA-256 of the content before the first installation; empty if the file did not exist."""
    after: str
    """SHA-256 of the content written last."""
    clean: bool = True
    """Did only installations change it between the first one and the last?"""
    backups: tuple[str, ...] = ()
    """Copies of the content before each installation, the first one first."""


@dataclass(slots=True)
class Manifest:
    """The record of all changes below a prefix and elsewhere."""

    prefix: Path
    release: str = ""
    user: str = ""
    files: dict[Path, FileRecord] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    """Folders that were made, the outer ones first."""
    releases: list[str] = field(default_factory=list)
    format: int = FORMAT

    def save(self) -> None:
        """Write it.

        Raises:
            OSError: it cannot be written.
        """
        text = _MANIFEST.dump_json(self, indent=1) + b"\n"
        write_whole(self.prefix / NAME, text, lambda file: os.fchmod(file, 0o644))


_MANIFEST: Final = TypeAdapter(Manifest)


def read_manifest(prefix: Path) -> Manifest | None:
    """Return the manifest below a prefix; None if nothing is installed there.

    Raises:
        UserError: the manifest cannot be read.
    """
    path = prefix / NAME
    try:
        plain = json.loads(path.read_text())
        if plain["format"] != FORMAT:
            raise UserError(f"{path} was written by another release of Treadle; use the `treadle` of that one")
        return _MANIFEST.validate_python(plain | {"prefix": prefix})
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; run this as the user who installed Treadle") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); take Treadle out by hand (docs/administrator.md)") from error


def installed_conf(prefix: Path) -> Path | None:
    """Return the folder of Hadoop's settings that an installation below a prefix has changed; None if none is known."""
    with suppress(UserError):  # the check of it reports that it cannot be read
        known = read_manifest(prefix)
        folders = {path.parent for path in known.files if path.name == OWN_SITE} if known else set()
        return next(iter(folders)) if len(folders) == 1 else None
    return None


def content_of(path: Path) -> bytes | None:
    """Return a file's content; None if there is none.

    Raises:
        UserError: it cannot be read, or is longer than `BYTES_MAX`.
    """
    try:
        content = read_regular(path, BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if len(content) > BYTES_MAX:
        raise UserError(f"{path} has more than {BYTES_MAX} bytes, too many for a file of settings; check the path")
    return content


def put(path: Path, data: bytes, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Replace a file's content atomically. An existing file keeps its mode, owner and attributes.

    Raises:
        OSError: it cannot be written, and is unchanged.
    """
    before = path.stat() if path.exists() else None

    def as_before(file: int) -> None:
        os.fchmod(file, mode if before is None else before.st_mode & 0o7777)
        owner_ids = owner if before is None else (before.st_uid, before.st_gid)
        if owner_ids is not None:
            own_as(file, owner_ids)
        with suppress(OSError):  # extended attributes (access lists, labels), as far as this user may
            for name in () if before is None else os.listxattr(path):
                with suppress(OSError):
                    os.setxattr(file, name, os.getxattr(path, name))

    write_whole(path, data, as_before)


def back_up(path: Path, data: bytes, now: datetime) -> Path:
    """Write a copy next to a file, with its mode and owner; return the copy's path.

    Raises:
        OSError: the copy cannot be written.
    """
    like = path.stat()
    stamp = f"{now:%Y%m%d-%H%M%S}"
    kept = path.with_name(f"{path.name}.treadle-{stamp}")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.treadle-{stamp}-{number}")
    put(kept, data, like.st_mode & 0o7777, (like.st_uid, like.st_gid))
    return kept


def user_ids(name: str) -> tuple[int, int]:
    """Return a user's number and that of its group.

    Raises:
        UserError: this host has no such user.
    """
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise UserError(f"this host has no user {name}; name the ResourceManager's with --user") from error
    return entry.pw_uid, entry.pw_gid


DEFAULT_PREFIX: Final = Path("/opt/treadle")
DEFAULT_SYSTEMD: Final = Path("/etc/systemd/system")
UNIT: Final = "treadle-sidecar.service"

CLASS_KEY: Final = "yarn.resourcemanager.scheduler.class"
_CAPACITY: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
CLASS: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.TreadleScheduler"
PREFIX: Final = "yarn.scheduler.treadle."
"""Prefix of Treadle's keys in yarn-site.xml."""
_BAD_IN_PATHS: Final = re.compile(r"[:*?'\"\\$`\s]|[^\x20-\x7e]")


@dataclass(frozen=True, slots=True)
class Options:
    """The administrator's choices."""

    conf: Path
    """The ResourceManager's HADOOP_CONF_DIR."""
    user: str
    """Whom the sidecar runs as."""
    prefix: Path = DEFAULT_PREFIX
    config: Path | None = None
    """Path for treadle.yaml; None: by the prefix."""
    systemd: Path | None = None
    """Where a systemd unit goes; None: nowhere."""

    @property
    def target(self) -> Path:
        """Where this release goes."""
        return self.prefix / __version__

    @property
    def kernels(self) -> Path:
        """The folder of compiled code."""
        return self.prefix / "kernels"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file's new content."""

    path: Path
    kind: Kind
    before: bytes | None
    after: bytes

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff, without those around the changed ones."""
        old = [] if self.before is None else self._shown(self.before)
        old_name = "/dev/null" if self.before is None else str(self.path)
        yield from difflib.unified_diff(old, self._shown(self.after), old_name, str(self.path), n=0, lineterm="")

    def _shown(self, data: bytes) -> list[str]:
        """Return a file's lines; of yarn-site.xml, whose lines may hold a secret, only the one that is Treadle's."""
        if self.kind == "site":
            return [INCLUDE] if INCLUDE.encode() in data else []
        return data.decode("utf-8", "replace").splitlines()


@dataclass(slots=True)
class Plan:
    """All that an installation would do."""

    options: Options
    config: Path
    contents: Contents
    makes_environment: bool
    makes_kernels: bool
    links: bool
    makes_state: bool = False
    """Is the folder missing that the engine keeps its state in?"""
    changes: list[FileChange] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Does the plan change nothing?"""
        return not (self.changes or self.makes_environment or self.makes_kernels or self.makes_state or self.links)


def plan_installation(options: Options, contents: Contents, known: Manifest | None) -> Plan:
    """Return the changes that an installation makes.

    Args:
        options: the administrator's choices
        contents: of the environment
        known: the manifest of an earlier installation

    Raises:
        UserError: the installation is not possible; nothing was changed.
    """
    site_path, own_path = options.conf / "yarn-site.xml", options.conf / OWN_SITE
    real_path = _real(site_path)
    site = read_site(site_path)
    held = settings_of(site)
    _refuse_schedulers(held.get(CLASS_KEY))
    config, writes_config = _config_of(options, held)
    keeps_here = writes_config or Path(read_section(config, "kernels", Kernels).folder) == options.kernels
    link = options.prefix / "current"
    plan = Plan(
        options,
        config,
        contents,
        makes_environment=not is_intact(options.target, contents.digests()),
        makes_kernels=keeps_here and not options.kernels.is_dir(),
        links=not (link.is_symlink() and str(link.readlink()) == __version__),
        makes_state=keeps_here and not state_folders(config, "", ())[0].exists(),
    )
    if link.exists() and not link.is_symlink():
        raise UserError(f"{link} is not a link; move it away, or choose another --prefix")
    if writes_config:
        plan.changes.append(FileChange(config, "own", None, _yaml(options.kernels).encode()))
    _plan_unit(plan, known)
    env_path = _real(options.conf / "yarn-env.sh")
    script = content_of(env_path)
    new_script = with_jar(script or b"", options.target / JAR)
    if new_script != script:
        _refuse_broken_script(env_path, script, new_script)
        plan.changes.append(FileChange(env_path, "env", script, new_script))
    content = content_of(own_path)
    if own_path.is_symlink():
        raise UserError(f"{own_path} is a link, which stays as it is; put a file there, or remove it")
    own = {} if content is None else settings_of(parse_site(own_path, content))
    before = {name: each.value for name, each in own.items()}
    wanted = _wanted(options, held, config)
    after = before | wanted
    _refuse_overridden(including(site, after), wanted)
    if after != before:
        finals = [name for name, each in own.items() if each.final]
        plan.changes.append(FileChange(own_path, "settings", content, own_site(after, finals)))
    changed = with_include(site)
    if changed != site.data:
        plan.changes.append(FileChange(real_path, "site", site.data, changed))
    _remark(plan, held)
    _refuse_unwritable(plan)
    return plan


def settings_in(conf: Path) -> Mapping[str, Setting]:
    """Return the settings in the yarn-site.xml of a folder.

    Raises:
        UserError: the file cannot be read.
    """
    return settings_of(read_site(conf / "yarn-site.xml"))


def record_of(change: FileChange, backup: Path | None, known: FileRecord | None) -> FileRecord:
    """Return the manifest record of a file change; repeated changes keep the original content."""
    kept = () if backup is None else (str(backup),)
    if known is None:
        before, after = sha256(change.before), sha256(change.after)
        return FileRecord(change.path, change.kind, before, after, True, kept)
    return replace(
        known,
        after=sha256(change.after),
        clean=known.clean and sha256(change.before) in {known.after, known.before},
        backups=(*known.backups, *kept),
    )


def _refuse_overridden(settings: Mapping[str, Setting], wanted: Mapping[str, str]) -> None:
    """Refuse values in treadle-site.xml that Hadoop would not use, for others in yarn-site.xml."""
    for name, value in wanted.items():
        now = settings[name]
        if now.value.strip() != value.strip():
            why = "is final and" if now.final else "comes after treadle-site.xml and"
            raise UserError(
                f"{now.file}:{now.line}: {name} {why} is '{now.value.strip()}'; make it '{value}' there, or "
                "remove it, and try again"
            )


def _wanted(options: Options, held: Mapping[str, Setting], config: Path) -> dict[str, str]:
    """Return the required settings. The administrator's choices stay."""
    values = {CLASS_KEY: CLASS}
    if f"{PREFIX}mode" not in held:
        values[f"{PREFIX}mode"] = "observe_only"
    # By the release, not by the link: a sidecar that is started again must be of the same release as the jar.
    values[f"{PREFIX}python.command"] = str(options.target / "bin" / "treadle")
    values[f"{PREFIX}config.file"] = str(config)
    return values


def _config_of(options: Options, held: Mapping[str, Setting]) -> tuple[Path, bool]:
    """Return which treadle.yaml is used, and whether it has to be written."""
    named = held.get(f"{PREFIX}config.file")
    if named is not None and named.value.strip():
        path = Path(named.value.strip())
        if options.config is not None and options.config != path:
            raise UserError(
                f"{named.file}:{named.line}: the engine reads {path}, not {options.config}; leave --config out, or "
                "change that setting first"
            )
        if path == default_config(options) and not path.exists():
            return path, True
        if not path.is_file():
            raise UserError(
                f"{named.file}:{named.line}: {named.value.strip()} is not there; write it, or unset the key"
            )
        return path, False
    path = default_config(options)
    if os.path.lexists(path) and not path.is_file():
        raise UserError(f"--config {path} is not a file; name a treadle.yaml, which is written if there is none")
    return path, not path.exists()


def default_config(options: Options) -> Path:
    """Return the default path of treadle.yaml."""
    if options.config is not None:
        return options.config
    folder = Path("/etc/treadle") if options.prefix == DEFAULT_PREFIX else options.prefix / "etc"
    return folder / "treadle.yaml"


def _plan_unit(plan: Plan, known: Manifest | None) -> None:
    options = plan.options
    if options.systemd is None:
        return
    path = options.systemd / UNIT
    text = _unit(options, plan.config)
    before, wrote = content_of(path), known.files.get(path) if known is not None else None
    if before == text.encode():
        return
    if before is not None and (wrote is None or wrote.after != sha256(before)):
        plan.remarks.append(f"{path} is not Treadle's: left as it is (the template is in {templates() / 'systemd'})")
        return
    plan.changes.append(FileChange(path, "own", before, text.encode()))


def _unit(options: Options, config: Path) -> str:
    """Return the systemd unit of an external sidecar that runs as the installation's user."""
    text = (templates() / "systemd" / UNIT).read_text("utf-8")
    text = text.replace("/opt/treadle/bin/treadle", str(options.target / "bin" / "treadle"))
    text = text.replace("--config /etc/treadle/treadle.yaml", f"--config {config}")
    text = text.replace(" Copy it to /etc/systemd/system.", " Written by treadle install.")
    text = text.replace("ProtectSystem=strict\n", f"ProtectSystem=strict\nReadWritePaths=-{options.kernels}\n")
    if options.user == "treadle":
        return text
    # The ResourceManager's own user needs no group to read the connection file, and has all its permissions.
    text = text.partition("[Unit]\n")[2]
    text = (
        f"# Treadle's sidecar as {options.user}, the ResourceManager's user (docs/administrator.md). Written by "
        "treadle install.\n# It may do all that its user may, but for the limits of this unit.\n[Unit]\n" + text
    )
    lines = text.replace("User=treadle\nGroup=treadle\n", f"User={options.user}\n").split("\n")
    lines = [line for line in lines if not line.startswith(("SupplementaryGroups=", "# Its members read"))]
    return "\n".join(lines).replace(" --connection-group treadle-link", "")


def _yaml(kernels: Path) -> str:
    return (
        "# The settings of Treadle's engine; `treadle policy show --defaults` has each, with its default.\n"
        "# What may be written here: `treadle policy check` tells, and `treadle policy use` changes the policy.\n"
        "kernels:\n"
        "  # Of the sidecar's user; `treadle install` has compiled into it.\n"
        f"  folder: {kernels}\n"
    )


def _remark(plan: Plan, held: Mapping[str, Setting]) -> None:
    mode = held.get(f"{PREFIX}mode")
    if mode is not None and mode.value.strip() != "observe_only":
        plan.remarks.append(f"{mode.file}:{mode.line}: the mode is {mode.value.strip()}, and stays that")
    sidecar = held.get(f"{PREFIX}sidecar")
    if sidecar is not None and sidecar.value.strip() == "external":
        plan.remarks.append(
            "the sidecar is external: restart it (treadle sidecar restart) together with the ResourceManager"
        )
    releases = [each.parent for each in plan.options.prefix.glob(f"*/{RECORD}") if not each.parent.is_symlink()]
    names = ", ".join(sorted(each.name for each in releases if each != plan.options.target))
    if names:
        plan.remarks.append(f"other releases stay in {plan.options.prefix} until `treadle uninstall`: {names}")


def refuse_paths(options: Options) -> None:
    """Refuse folders that cannot be used.

    Raises:
        UserError: one cannot.
    """
    if not options.conf.is_dir():
        raise UserError(f"{options.conf} is not a folder; --hadoop-conf is the ResourceManager's HADOOP_CONF_DIR")
    for name, path in (("--prefix", options.prefix), ("--config", options.config), ("--systemd-dir", options.systemd)):
        if path is None:
            continue
        if not path.is_absolute() or _BAD_IN_PATHS.search(str(path)):
            raise UserError(f"{name} {path}: give an absolute path of plain letters, since shells and Java read it")
    if options.systemd is not None and not options.systemd.is_dir():
        raise UserError(f"--systemd-dir {options.systemd} is not a folder")
    there = next(each for each in (options.prefix, *options.prefix.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise UserError(f"--prefix {options.prefix}: {there} is not a folder; choose another --prefix")
    reason = reason_against(there)
    if reason:
        raise UserError(f"--prefix {options.prefix}: {reason}. What lies there is run by the ResourceManager's user")


def _refuse_schedulers(setting: Setting | None) -> None:
    if setting is not None and setting.value.strip() not in {"", _CAPACITY, CLASS}:
        raise UserError(
            f"{setting.file}:{setting.line}: {CLASS_KEY} is '{setting.value.strip()}'. Treadle stands in for the "
            f"CapacityScheduler alone: move the cluster to it first ('{_CAPACITY}'; for the FairScheduler `yarn "
            "fs2cs` converts queues), and install then"
        )


def _refuse_broken_script(path: Path, before: bytes | None, after: bytes) -> None:
    """Refuse lines that the shell would not read as such, after a text that never ends for example."""
    bash = shutil.which("bash")
    if bash is None or before is None:
        return
    for data, reads in ((before, True), (after, False)):
        ended = subprocess.run(
            [bash, "-n"], input=data, capture_output=True, check=False, env={"PATH": os.defpath, "LC_ALL": "C"}
        )
        # An unterminated here-document causes only a warning, and would swallow the lines that are added.
        if ended.returncode != 0 or b"here-document" in ended.stderr:
            lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
            which = "cannot be read by bash as it is" if reads else "cannot have lines added at its end"
            raise UserError(f"{path} {which}: {lines[-1] if lines else 'no reason is given'}; put it right first")


def _refuse_unwritable(plan: Plan) -> None:
    places = [change.path.parent for change in plan.changes]
    if plan.makes_environment or plan.makes_kernels or plan.links:
        places.append(plan.options.prefix)
    if plan.makes_state:
        places.append(plan.config.parent)
    for place in places:
        there = next(each for each in (place, *place.parents) if each.exists())
        if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            raise UserError(f"{there} may not be written by this user; run treadle install as root, or choose others")


def _real(path: Path) -> Path:
    """Return the target of a path: a link stays, and its target is changed."""
    try:
        return path.resolve(strict=True) if path.is_symlink() else path.absolute()
    except RuntimeError as error:
        raise UserError(f"{path}: {os.strerror(errno.ELOOP)}: links that lead in a circle") from error
    except OSError as error:
        raise UserError(f"{path} is a link: {error.filename}: {error.strerror}") from error


_COMMAND: Final = "bin/treadle"
_STARTS: Final = re.compile(rf"^ExecStart=(/\S+)/{_COMMAND} ", re.MULTILINE)


def found_prefix(conf: Path | None, *, trusted: bool, systemd: Path = DEFAULT_SYSTEMD) -> Path:
    """Return the prefix of an installation on this host, the usual one if none is found.

    The prefix is taken from the environment that this command runs from, the line that adds the jar to the class path,
    or the unit of an external sidecar, in this order.

    Args:
        conf: the ResourceManager's HADOOP_CONF_DIR, if it is known
        trusted: use only files that no user except root and this one can write: they decide which changes are undone
        systemd: the folder of units
    """
    releases = chain([Path(sys.prefix)], () if conf is None else _of_jar(conf), _of_unit(systemd / UNIT))
    return _first_installed(releases, trusted)


def prefix_for(conf: Path) -> Path:
    """Return the prefix of the installation whose jar a ResourceManager loads, for the next one; else the usual one."""
    return _first_installed(_of_jar(conf), trusted=True)


def installed_user(prefix: Path) -> str:
    """Return the sidecar's user as `treadle install` has recorded it; empty if others could have written the record."""
    with suppress(UserError, OSError):
        if not reason_against(prefix / NAME):
            known = read_manifest(prefix)
            return known.user if known is not None else ""
    return ""


def sidecar_users() -> frozenset[int]:
    """Return the users whose processes and sockets may be the sidecar's: root, this user, and the installation's."""
    with suppress(KeyError):
        installed = pwd.getpwnam(installed_user(found_prefix(None, trusted=True)))
        return trusted_owners() | {installed.pw_uid}
    return trusted_owners()


def _first_installed(releases: Iterable[Path], trusted: bool) -> Path:
    """Return the first prefix of a release, PREFIX/RELEASE, that is an installation's."""
    for release in releases:
        record = release.parent / NAME
        with suppress(OSError):  # not readable for this user, or not a valid path
            if record.is_file() and not (trusted and reason_against(record)):
                return release.parent
    return DEFAULT_PREFIX


def _of_jar(conf: Path) -> Iterator[Path]:
    jar = jar_in(_content(conf / "yarn-env.sh"))
    if jar is not None and jar.match(f"*/{JAR}"):
        yield jar.parents[1]


def _of_unit(unit: Path) -> Iterator[Path]:
    starts = _STARTS.search(_content(unit).decode("utf-8", "replace"))
    if starts is not None:
        yield Path(starts[1])


def _content(path: Path) -> bytes:
    """Return a file's content; empty if it does not exist, or this user may not read it."""
    try:
        return read_regular(path, BYTES_MAX)
    except OSError:
        return b""
