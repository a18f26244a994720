"""The changes of a treadle.yaml by `treadle policy use` and `treadle policy rollback`.

A running ResourceManager then reads the new file and its engine runs the policy; otherwise the old file is restored.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from treadle.admin.plan import put
from treadle.config.part_files import idle_parts, missing
from treadle.config.reader import check_settings, peek_source, read_roster
from treadle.config.settings import KEYS, SECTIONS, Settings
from treadle.config.text import History, Version, section_values, with_absolute_paths, with_sections
from treadle.config.trust import reason_against, trusted_owners
from treadle.config.yaml_nodes import YamlDocument, text_of
from treadle.errors import ConfigError, UserError, unknown
from treadle.shipped import ready_made
from treadle.yarn.pages import address_of, property_of, read_bean
from treadle.yarn.treadle_beans import policy_in, why_not

CONFIG_KEY: Final = "yarn.scheduler.treadle.config.file"
SIDECAR_KEY: Final = "yarn.scheduler.treadle.sidecar"
WAIT_S: Final = 30.0
SAME_S: Final = 3.0

_REFRESH_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2
_NAME: Final = "refreshQueues: "


def configured_file(rm: str, ca: Path | None = None, *, has_config: bool = True) -> Path:
    """Return the treadle.yaml that a ResourceManager's engine reads; ``has_config``: the command has --config.

    Raises:
        UserError: the ResourceManager does not report it.
    """
    value = property_of(rm, CONFIG_KEY, ca)
    if not value:
        other = "name the engine's treadle.yaml with --config, or " * has_config
        raise UserError(
            f"{address_of(rm)}/conf does not say what {CONFIG_KEY} is; {other}set that key in treadle-site.xml or "
            "yarn-site.xml and restart the ResourceManager"
        )
    return Path(value)


def _refuse_another_file(rm: str, target: Path, ca: Path | None = None) -> None:
    """Refuse a treadle.yaml that a managed sidecar does not read: to change it would change nothing."""
    if property_of(rm, SIDECAR_KEY, ca) == "external":
        return  # its start command names the file
    named = property_of(rm, CONFIG_KEY, ca)
    if named and Path(named).resolve() == target.resolve():
        return
    reads = f"reads {named}, not {target}" if named else f"reads no treadle.yaml, so not {target}"
    raise UserError(
        f"the engine of the ResourceManager at {address_of(rm)} {reads}; nothing was changed. Leave --config out, or "
        f"set {CONFIG_KEY} in treadle-site.xml or yarn-site.xml and restart the ResourceManager; --no-refresh changes "
        "the file alone"
    )


def refuse_off(bean: dict[str, Any]) -> None:
    """Refuse to wait for an engine where none runs.

    Raises:
        UserError: the mode is off.
    """
    if bean.get("Mode") == "off":
        raise UserError(
            "the mode is off, so that no engine runs which could take a policy over; set yarn.scheduler.treadle.mode "
            "and run `yarn rmadmin -refreshQueues` first, or change the file alone with --no-refresh"
        )


def refresh_command(given: str | None) -> str | None:
    """Return the `yarn` command: the one given, or the one in the path or of HADOOP_HOME; None if there is none."""
    if given is not None:
        return given
    homes = [os.environ.get(name) for name in ("HADOOP_YARN_HOME", "HADOOP_HOME")]
    return shutil.which("yarn") or next(
        filter(None, (shutil.which(f"{home}/bin/yarn") for home in homes if home)), None
    )


def refresh(yarn: str) -> None:
    """Run ``yarn rmadmin -refreshQueues``.

    Raises:
        UserError: it failed; the text has why.
    """
    try:
        ended = subprocess.run(
            [yarn, "rmadmin", "-refreshQueues"], capture_output=True, text=True, timeout=_REFRESH_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{yarn} rmadmin -refreshQueues: {error}") from error
    if ended.returncode != 0:
        raise UserError(f"{yarn} rmadmin -refreshQueues failed: {_reason_in(ended.stderr + ended.stdout)}")


def _reason_in(output: str) -> str:
    """Return why a refresh was refused: rmadmin's lines under its command's name, without logs and stack traces."""
    lines = [line for line in output.splitlines() if line.strip()]
    named = [line.removeprefix(_NAME) for line in lines if line.startswith(_NAME)]
    plain = [line for line in lines if not line.startswith(("\t", "Caused by:"))]
    return next(iter([*named, *plain[-1:], *lines[-1:]]), "it said nothing").strip()


def wait_until_runs(rm: str, policy: str, earlier: dict[str, Any], ca: Path | None = None) -> None:
    """Wait until a ResourceManager's engine runs a policy.

    Args:
        rm: its address
        policy: the policy's name
        earlier: the bean before the refresh; if it already has that name, a refusal is awaited for a while
        ca: certificates to trust over https

    Raises:
        UserError: it does not run within the time, or is refused, or the mode is off; the text has the reason.
    """
    earlier_error, same = earlier.get("LastError"), policy_in(earlier) == policy
    for look in range(int(WAIT_S / _POLL_S)):
        bean = read_bean(rm, ca)
        refuse_off(bean)
        error, runs = bean.get("LastError") or "", policy_in(bean)
        # The bean keeps the latest error; each refusal has a text of its own.
        if error != earlier_error and re.search(r"settings \d+ refused", error):
            raise UserError(f"the engine refuses it: {error}")
        if runs != policy and _failed(error, earlier_error or ""):
            raise UserError(f"the engine took it over, and it failed at once: {error}")
        if runs == policy and (not same or look * _POLL_S >= SAME_S):
            return
        time.sleep(_POLL_S)
    raise UserError(f"the engine does not run it: {runs or 'nothing'} runs; {error or 'no error is reported'}")


def _failed(error: str, earlier: str) -> bool:
    """Return whether an error reports a failed part, so that another policy runs, and an earlier error did not."""
    news = set(error.split("; ")) - set(earlier.split("; "))
    return error.endswith(" runs instead") and any(re.search(r"\bpolicy\.\w+ \(", each) for each in news)


REFUSED_S: Final = 1.0
"""A refusal that lasts longer than this concerns the new policy, not the one before."""


def confirm(rm: str, policy: str, ca: Path | None = None) -> str:
    """Wait until a cluster is scheduled by a policy that its engine runs, and return a sentence for the user.

    In mode ``observe_only`` no policy schedules the cluster; the sentence says that.

    Raises:
        UserError: the cluster is not scheduled by it; the text has the reason.
    """
    refused, looks, bean = 0, int(WAIT_S / _POLL_S), dict[str, Any]()
    for _ in range(looks):
        bean = read_bean(rm, ca)
        reason = why_not(bean)
        if not reason:
            return f"the cluster runs {policy}"
        if bean.get("Mode") == "observe_only":
            return f"the engine proposes by {policy}; {reason}"
        refused = refused + 1 if bean.get("Refusal") else 0
        if refused * _POLL_S > REFUSED_S or "Schedules" not in bean:
            break
        time.sleep(_POLL_S)
    raise UserError(f"the cluster does not run {policy}: {why_not(bean)}")


_MARK: Final = "# Taken over by `treadle policy "
"""How the first line of a file begins that was put there."""


@dataclass(frozen=True, slots=True)
class Change:
    """A text that is to take a treadle.yaml's place."""

    target: Path
    before: str | None
    """The current content; None if the file does not exist."""
    text: str
    source: str
    """Where it comes from."""

    def apply(self) -> Version | None:
        """Save the content as a version and write the text; return the version, None if there was no other content.

        Raises:
            UserError: a file cannot be written.
        """
        kept = None
        if self.before is not None and _unmarked(self.before) != _unmarked(self.text):
            try:
                like = self.target.stat()
                until, policy = _now("seconds"), _policy_in(self.before)
                kept = History(self.target).keep(until, policy, self.source, self.before, like)
            except OSError as error:
                folder = self.target.parent
                raise UserError(f"{folder}: {error.strerror}; run this as a user who may write there") from error
        _replace_file(self.target, self.text)
        return kept

    def undo(self, kept: Version | None) -> None:
        """Restore the content before the change."""
        if self.before is not None:
            _replace_file(self.target, self.before)
        if kept is not None:
            History(self.target).forget(kept)


class StoppedError(UserError):
    """Ctrl-C while a cluster was to take a change over: the file is changed, and the engine may follow it."""


def take_over(
    change: Change, wanted: str, rm: str, ca: Path | None, yarn: str | None, say: Callable[[str], None]
) -> None:
    """Write a treadle.yaml and have it read again; the content before the change is restored if it is rejected.

    Args:
        change: the text
        wanted: the name of its policy
        rm: the ResourceManager's address
        ca: certificates to trust over https
        yarn: the command that makes the ResourceManager read it again; None: only write the file
        say: is called with each step, a line each

    Raises:
        StoppedError: Ctrl-C ended it.
        UserError: it is rejected, or a file cannot be written; the text says which files are unchanged.
    """
    earlier = {} if yarn is None else read_bean(rm, ca)  # reports a refusal before anything changes
    refuse_off(earlier)
    kept = change.apply()
    was = f"; what it was is version {kept.number} of `treadle policy history`" if kept else ""
    say(f"{change.target}: {wanted}{was}")
    if yarn is None:
        say("run `yarn rmadmin -refreshQueues` to have it taken over")
        return
    try:
        refresh(yarn)
        wait_until_runs(rm, wanted, earlier, ca=ca)
        outcome = confirm(rm, wanted, ca=ca)
    except UserError as error:
        if change.before is None:
            raise
        change.undo(kept)
        again = ""
        try:  # so that the engine and the file agree again
            refresh(yarn)
        except UserError:
            again = "; the engine may not have read it again: run `yarn rmadmin -refreshQueues`"
        raise UserError(f"{error}\n{change.target} is as it was before{again}") from error
    except KeyboardInterrupt:
        back = "remove it to take that back" if change.before is None else "its policy is the same as before"
        back = "`treadle policy rollback` takes it back" if kept else back
        raise StoppedError(f"stopped: {change.target} is changed, and the engine may follow it; {back}") from None
    say(outcome)


def checked(file: Path) -> str:
    """Return the name of a file's valid policy, the first engine's; user code runs in a process with a time limit."""
    from treadle.live.live_settings import check_apart, read_live_settings

    source = peek_source(file)
    if source is not None and source.part_files:
        return check_apart(file)
    return read_live_settings(file).of_first_engine.policy.name()


def refuse_missing(file: Path) -> None:
    """Refuse a valid treadle.yaml whose policy depends on a section that the file lacks.

    Raises:
        UserError: a section is missing.
    """
    from treadle.policy.catalogue import register_parts  # only here: it imports numba

    register_parts()
    _refuse_missing(file, file, text_of(file))


def unused(file: Path) -> list[str]:
    """Return which settings of a treadle.yaml are not used, and which parts of its policy do less than they seem to."""
    text = text_of(file)
    settings = check_settings(file, text)
    lines = dict.fromkeys(line for at, each in _followed(settings) for line in idle_parts(each.policy, at))
    return [*settings.warnings, *(_placed(file, text, line) for line in lines)]


def unrecorded(file: Path) -> list[str]:
    """Return why nothing will be recorded: `record.folder` is none that a sidecar uses."""
    settings = check_settings(file)
    folders = dict.fromkeys(each.record.folder for each in (settings, *settings.entries.values()))
    reasons = [_why_not_recorded(Path(folder)) if folder else "" for folder in folders]
    return [f"{file}: record.folder: {reason}, or nothing is recorded" for reason in reasons if reason]


def _why_not_recorded(folder: Path) -> str:
    """Return why a sidecar cannot record into a folder, and the remedy; empty if no problem is found."""
    try:
        if not folder.parent.is_dir():
            return f"{folder.parent} is not there on this host; make it"
        if not folder.exists():
            return ""
        if not folder.is_dir():
            return f"{folder} is not a folder; name another one"
        return reason_against(folder, trusted_owners() | {folder.stat().st_uid})
    except PermissionError:  # it may be for the sidecar's user alone
        return ""
    except OSError as error:
        return f"{folder}: {error.strerror}; name another one"


def unnamed_queues(file: Path, scenario: Path, *, trust_code: bool) -> list[str]:
    """Return warnings of a scenario's leaves that no tree of a treadle.yaml names.

    Raises:
        UserError: the scenario cannot be read, a tree names a queue that is not a leaf, or engines are incompatible.
    """
    from treadle.simulate.batch import Scenario, queue_problems, settings_of  # only here: it imports numba

    read = Scenario.read(scenario, trust_code=trust_code)
    wrong, warnings = queue_problems(settings_of(file, read)[1], read.model)
    if wrong:
        raise UserError("\n".join([*(f"warning: {line}" for line in warnings), *wrong]))
    return warnings


def target_of(config: Path | None, rm: str, ca: Path | None = None, *, reads: bool = False) -> Path:
    """Return the treadle.yaml to change: the named one, or the one that a ResourceManager reports.

    An impostor in the ResourceManager's place could name any file: only a treadle.yaml is accepted.

    Args:
        config: the named file
        rm: the ResourceManager's address
        ca: certificates to trust over https
        reads: whether its engine must read the named file

    Raises:
        UserError: the ResourceManager reports none, or the file may not be written to.
    """
    if config is not None:
        if config.exists():
            _refuse_distrusted(config, trusted_owners() | {config.stat().st_uid})
        if reads:
            _refuse_another_file(rm, config, ca)
        return config
    target = configured_file(rm, ca)
    remedy = f"the ResourceManager at {rm} names it; if that is right, name it yourself with --config {target}"
    if not target.is_absolute() or not target.is_file():
        raise UserError(f"{target} is not there; {remedy}")
    _refuse_distrusted(target, trusted_owners())
    try:
        sections = set(section_values(text_of(target)))
    except (yaml.YAMLError, ValueError, RecursionError):
        sections = set()
    if not sections or sections - set(KEYS):
        raise UserError(f"{target} is not a treadle.yaml; {remedy}")
    return target


def _refuse_distrusted(target: Path, owners: Collection[int]) -> None:
    try:
        reason = reason_against(target, owners)
    except OSError as error:
        raise UserError(f"{target}: {error.strerror or error}") from error
    if reason:
        raise UserError(f"{reason}; nothing was changed")


def shown_after(change: Change, policy: str) -> str:
    """Return the name of the policy that the ResourceManager will show: with several engines the first one's.

    Args:
        change: takes a policy over
        policy: its name

    Raises:
        UserError: no engine would follow it, or the text after the change is not right.
    """
    engines = section_values(change.text).get("engines") or {}
    if not engines:
        return policy
    stay = engines == section_values(change.before or "").get("engines")
    if stay and all("policy" in (entry or {}) for entry in engines.values()):
        names = ", ".join(f"engines.{name}.policy" for name in engines)
        raise UserError(
            f"{change.target}: each of its engines has a policy of its own, so that none would follow this one; "
            f"change {names} in the file"
        )
    return checked_text(change)


def checked_text(change: Change) -> str:
    """Return the name of the policy of a text that is about to be put in a file's place.

    Raises:
        UserError: it is not right (any more).
    """
    folder = change.target.parent
    try:
        # In the file's folder, since relative paths of parts begin there.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, suffix=".yaml") as file:
            file.write(change.text)
            file.flush()
            return checked(Path(file.name))
    except ConfigError as error:
        # Not the name of the temporary file; line numbers are those of the rejected text.
        raise ConfigError(f"{change.target} after this change", error.problems) from error
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; run this as a user who may write there") from error


def change_of(file: Path, target: Path, also: Sequence[str]) -> Change:
    """Return the change that makes a treadle.yaml follow the policy of another file.

    Args:
        file: the file with the policy, which is valid
        target: the treadle.yaml to change; if it does not exist, the other file is copied as a whole
        also: sections of the other file that are copied too

    Raises:
        UserError: another user may write to the file, or the policy or another setting of the file conflicts with
            the treadle.yaml.
    """
    from treadle.policy.catalogue import register_parts  # as above

    register_parts()
    for name in also:
        if name not in (*SECTIONS, "engines"):
            raise UserError(f"--also {unknown(name, (*SECTIONS, 'engines'))}")
    target = target.resolve()
    _refuse_ready_made(target)
    if file not in ready_made().values():
        _refuse_distrusted(file, trusted_owners() | ({target.stat().st_uid} if target.exists() else set()))
    text = text_of(file)
    taken = with_absolute_paths(text, file.parent)
    source = str(file.absolute())
    if not target.exists():
        _refuse_missing(file, file, taken)
        return Change(target, None, _marked("use", source, taken), source)
    before = text_of(target)
    YamlDocument(str(target), before)  # raises an error that names the line of invalid YAML
    if "engines" not in also:
        read_roster(target, before)  # the same of engines that are none; their policies are checked at the end
    after = with_sections(str(target), before, taken, ("policy", *also))
    differing = list(_differing(file, text, target, after))
    if differing:
        raise UserError(
            "\n".join(f"{file}: {line} in {target}" for line in differing)
            + "\n`treadle policy use` changes `policy:` alone; change the others by hand, or take a whole section over "
            "with --also SECTION"
        )
    _refuse_missing(file, target, after)
    return Change(target, before, _marked("use", source, after), source)


def _refuse_ready_made(target: Path) -> None:
    """Refuse to write over a policy of `treadle policy list`."""
    for name, file in ready_made().items():
        if target == file.resolve():
            raise UserError(
                f"{target} is the ready-made policy {name}, which stays as it is; copy it, and name the copy in "
                "yarn.scheduler.treadle.config.file (an external sidecar: --config)"
            )


def change_back(target: Path, number: int | None) -> Change:
    """Return the change that restores an earlier version of a treadle.yaml.

    Raises:
        UserError: the version is not stored, or the file does not exist.
    """
    target = target.resolve()
    version = History(target).version(number)
    source = f"version {version.number}"
    return Change(target, text_of(target), _marked("rollback", source, version.text), source)


def _refuse_missing(file: Path, target: Path, text: str) -> None:
    """Refuse a policy that depends on a section that the file lacks, before it runs and does less than intended."""
    with_sections(str(target), text, text, ["policy"])  # refuses sections that cannot be replaced
    followed = _followed(check_settings(target, text))
    lines = dict.fromkeys(line for at, each in followed for line in missing(each, at))
    if lines:
        here = file == target
        lines_shown = [_placed(file, text, line) if here else f"{file}: {line}" for line in lines]
        raise UserError("\n".join(f"{line} in {target}" for line in lines_shown))


def _placed(file: Path, text: str, line: str) -> str:
    """Return a line that begins with a field, preceded by the file and the field's position in it."""
    field = line.partition(" ")[0]
    at = YamlDocument(str(file), text).line(tuple(field.split(".")))
    return f"{file}{f':{at}' if at else ''}: {line}"


def _followed(settings: Settings) -> Iterator[tuple[str, Settings]]:
    """Yield each policy's position in a treadle.yaml, and the settings that apply to it: one for each entry."""
    if not settings.entries:
        yield "policy", settings
    for name, own in settings.entries.items():
        yield "policy" if own.policy is settings.policy else f"engines.{name}.policy", own


def policies_of_engines(file: Path) -> dict[str, str]:
    """Return the name of each engine's policy in a treadle.yaml that is right, by engine; empty without a roster."""
    settings = check_settings(file)
    return {engine.name: settings.entries[engine.entry_name].policy.name() for engine in settings.engines}


def _differing(file: Path, text: str, target: Path, after: str) -> Iterator[str]:
    """Yield the settings outside a file's policy that differ from those of a text that takes over its policy."""
    own, others = check_settings(file, text), check_settings(target, after)
    for section, values in section_values(text).items():
        if section == "policy":
            continue
        if section == "engines":
            if values != section_values(after).get("engines"):
                yield "engines is given here and is another"
            continue
        for key in values if isinstance(values, dict) else ("",):
            wanted, given = _value(own, section, key), _value(others, section, key)
            if wanted != given:
                yield f"{section}{f'.{key}' if key else ''} is {wanted!r} here and {given!r}"


def _value(settings: Settings, section: str, key: str) -> Any:
    value = getattr(settings, section)
    return getattr(value, key) if key else value


def _marked(command: str, source: str, text: str) -> str:
    # The first line differs each time: a policy that failed is tried again if an administrator asks for it.
    return f"{_MARK}{command}` from {source} at {_now()}\n{_unmarked(text)}"


def _unmarked(text: str) -> str:
    return text.partition("\n")[2] if text.startswith(_MARK) else text


def _policy_in(text: str) -> str:
    """Return the kinds of the parts that a text chooses, as far as it can be read."""
    try:
        policy = section_values(text).get("policy") or {}
        return " ".join(
            part if value is True else f"{part}={(value or {}).get('kind', 'default')}"
            for part, value in policy.items()
            if value is not False
        )
    except (yaml.YAMLError, AttributeError, ValueError, RecursionError):
        return "cannot be read"


def _now(digits: str = "microseconds") -> str:
    return datetime.now(UTC).isoformat(timespec=digits)


def _replace_file(target: Path, text: str) -> None:
    """Put a text in a file's place at once; the owner, mode and attributes stay."""
    target = target.resolve()
    try:
        put(target, text.encode())
    except OSError as error:
        raise UserError(f"{target}: {error.strerror}; run this as a user who may write to {target.parent}") from error
