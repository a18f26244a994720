"""Custom parts from Python files: finds the class that treadle.yaml names, and checks its interface.

The file is executed each time that treadle.yaml is read; classes are found by name. Two parts from one file do not
share module state.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pydantic import Field, PrivateAttr

from treadle.config.parts import DURATIONS, PART_KINDS, Parameters, Part
from treadle.config.settings import Policy, Settings
from treadle.config.trust import reason_against
from treadle.errors import nearest
from treadle.files import read_regular

BYTES_MAX: Final = 1 << 20
"""Maximum size of a part's file."""

METHODS: Final = {
    "gate": ("allows", "True or False for each request"),
    "share": ("keys", "a number for each queue, the smallest for the one to be served first"),
    "order": ("keys", "a number for each application, the smallest for the one to be served first"),
    "fit": ("scores", "a number for each node, the largest for the best"),
    "estimate": ("durations_ms", "milliseconds for each request, NaN where nothing is known"),
}
"""For each kind of part the required method of a custom class besides its constructor, and its result."""


class PartStoppedError(BaseException):
    """Raised in a part from outside on a timeout; not an Exception, so that a part does not catch it by accident."""


class PartFileError(Exception):
    """A part's file is unusable."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field
        """The wrong setting of the part: ``path``, ``class`` or ``parameters``."""
        self.text = text


class FilePart(Parameters):
    """A class in a Python file."""

    path: str = Field(
        min_length=1,
        pattern=r"^[^\x00]*$",
        description="The Python file; a relative path begins at this file's folder.",
    )
    class_name: str = Field(min_length=1, alias="class", description="The name of the class in it.")
    parameters: dict[str, Any] = Field(default={}, description="What its constructor is called with, by name.")

    _class: type[Any] | None = PrivateAttr(default=None)
    _source: bytes = PrivateAttr(default=b"")

    def make(self) -> Any:
        """Return a new object of the class.

        Raises:
            ValueError: `located` was not called.
        """
        if self._class is None:
            raise ValueError("a part of kind file is made from settings that were read from a treadle.yaml")
        return self._class(**self.parameters)

    @property
    def label(self) -> str:
        """``my_share.py:MyShare``, for status pages and messages."""
        return f"{Path(self.path).name}:{self.class_name}"

    @property
    def source(self) -> bytes:
        """Content of the file."""
        return self._source

    def located(self, part: str, folder: Path, kept: Mapping[str, bytes] | None = None) -> FilePart:
        """Return a copy with an absolute path and the class.

        Args:
            part: the expected kind of part
            folder: base of relative paths
            kept: contents of files by path, instead of reading them

        Raises:
            PartFileError: the file or class is missing, or is not a part of this kind.
        """
        path = folder.absolute() / self.path
        source = _read(path) if kept is None else kept.get(str(path), b"")
        found = self.model_copy(update={"path": str(path)})
        found._class = _find(path, source, self.class_name)
        found._source = source
        _check_interface(path, found._class, part)
        _check_constructor(path, found._class, self.parameters)
        return found


class KeyedFilePart(FilePart):
    """A class in a Python file whose numbers change as containers are placed."""

    recompute_after: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="Containers placed before the part is asked again within the same answer; 1: after each.",
    )


class EstimateFilePart(FilePart):
    """A class in a Python file that knows how long tasks run."""

    default_ms: int = Field(
        default=30_000, ge=1, le=2**40, description="How long a task is taken to run of which the class says NaN."
    )


def interrupts(error: BaseException) -> bool:
    """Return whether an exception interrupts this process, rather than coming from a part's own code.

    Parts may raise anything: library errors are not always an Exception.
    """
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    return isinstance(error, PartStoppedError)


def where(error: BaseException, path: str) -> str:
    """Return ``my_part.py:12: ZeroDivisionError: division by zero`` for an exception in a part's file."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == path]
    if isinstance(error, SyntaxError) and error.filename == path:
        lines.append(error.lineno or 0)
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    place = f"{Path(path).name}:{lines[-1]}" if lines else Path(path).name
    return f"{place}: {type(error).__name__}{f': {message}' if message else ''}".partition("\n")[0]


def _read(path: Path) -> bytes:
    try:
        reason = reason_against(path)
        if reason:
            raise PartFileError("path", reason)
        source = read_regular(path, BYTES_MAX)
    except OSError as error:
        raise PartFileError("path", f"{path}: {error.strerror}; check the path and its permissions") from error
    if len(source) > BYTES_MAX:
        raise PartFileError("path", f"{path} is longer than {BYTES_MAX} bytes")
    return source


def _find(path: Path, source: bytes, name: str) -> type[Any]:
    digest = hashlib.sha256(str(path).encode() + b"\0" + source).hexdigest()[:16]
    module = ModuleType(f"treadle_part_{digest}")
    module.__file__ = str(path)
    # Dataclasses and pickle look up their module.
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 (to run a user's code is the purpose)
    except BaseException as error:
        if interrupts(error):
            raise
        raise PartFileError("path", f"{where(error, str(path))}; put it right") from error
    classes = sorted(
        key for key, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
    )
    part_class = vars(module).get(name)
    if not inspect.isclass(part_class):
        known = f"it has {', '.join(classes)}" if classes else "it has none"
        raise PartFileError("class", f"no class {name!r} in {path.name}: {known}{nearest(name, classes)}")
    return part_class


def _check_interface(path: Path, part_class: type[Any], part: str) -> None:
    name, returns = METHODS[part]
    remedy = f"write `def {name}(self, view)` that returns {returns}"
    method = inspect.getattr_static(part_class, name, None)
    if method is None:
        raise PartFileError(
            "class", f"{_place(path, part_class)}: {part_class.__name__} has no method {name}; {remedy}"
        )
    if not inspect.isfunction(method):
        raise PartFileError(
            "class", f"{_place(path, part_class)}: {part_class.__name__}.{name} is not a method; {remedy}"
        )
    if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
        raise PartFileError("class", f"{_place(path, method)}: {name} is not a plain function; {remedy}")
    try:
        inspect.signature(method).bind(None, None)
    except TypeError as error:
        raise PartFileError("class", f"{_place(path, method)}: {name} cannot be called: {error}; {remedy}") from error


def _check_constructor(path: Path, part_class: type[Any], parameters: Mapping[str, Any]) -> None:
    try:
        inspect.signature(part_class).bind(**parameters)
    except TypeError as error:
        text = f"{_place(path, part_class)}: {part_class.__name__} cannot be made from these: {error}"
        raise PartFileError("parameters", text) from error
    except ValueError:  # a class without its own signature
        return


def _place(path: Path, thing: Any) -> str:
    """Return the file and line of a class or function."""
    code = getattr(thing, "__code__", None)
    try:
        return f"{path.name}:{inspect.getsourcelines(thing)[1] if code is None else code.co_firstlineno}"
    except (OSError, TypeError, SyntaxError):  # not there (any more), or of another module
        return path.name


def missing(settings: Settings, policy: str = "policy") -> list[str]:
    """Return a line for each part of a policy that lacks required settings.

    Args:
        settings: the settings
        policy: location of the policy in the file; each line begins with a field of it
    """
    lines = [
        f"{says}: set {' or '.join(needs)}"
        for says, needs in _going_by_history(settings, policy)
        if not any(_setting(settings, name) for name in needs)
    ]
    gate, estimate = settings.policy.gate, settings.policy.estimate
    if gate.kind.traits.by_pilots and not estimate.kind.traits.overrides:
        lines.append(
            f"{policy}.gate ({gate.label}) samples how long tasks take, and {policy}.estimate ({estimate.label}) knows "
            f"no durations: set {policy}.estimate"
        )
    return lines


def idle_parts(policy: Policy, at: str = "policy") -> list[str]:
    """Return a line for each part of a policy that has less effect than expected in this combination.

    Args:
        policy: the policy
        at: its location in the file; each line begins with a field of it
    """
    gate, estimate = policy.gate, policy.estimate
    from_files = [part for part in PART_KINDS if isinstance(getattr(policy, part).parameters, FilePart)]
    goers = [part for part in ("order", "fit") if _goes_by_durations(getattr(policy, part))]
    lines = []
    if "estimate" not in from_files and not estimate.kind.traits.overrides:
        lines += [
            f"{at}.{part} ({getattr(policy, part).label}) needs durations, and {at}.estimate ({estimate.label}) "
            f"has none: all tasks count the same; set {at}.estimate"
            for part in goers
        ]
    elif not (goers or from_files or gate.kind.traits.by_pilots):
        lines.append(f"{at}.estimate ({estimate.label}) has no effect: no other part uses durations")
    if estimate.kind.traits.by_pilots and not gate.kind.traits.by_pilots and "gate" not in from_files:
        lines.append(
            f"{at}.estimate ({estimate.label}) needs pilots, and {at}.gate ({gate.label}) runs none: set {at}.gate"
        )
    return lines


def in_simulation(settings: Settings, *, hinted: bool) -> list[str]:
    """Return a line for each part of a policy that has less effect in a simulation.

    Args:
        settings: settings with the policy
        hinted: whether jobs come with hints about their tasks, as from a history
    """
    unheard = () if hinted else _going_by_history(settings)
    return [*(f"{says}, of which there are none here" for says, _ in unheard), *idle_parts(settings.policy)]


def _goes_by_durations(part: Part) -> bool:
    return DURATIONS in part.kind.traits.estimates and part.parameters.uses_estimates()


def _going_by_history(settings: Settings, policy: str = "policy") -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield for each part that uses job history a description, and alternative settings, one of which is required."""
    for part in PART_KINDS:
        chosen = getattr(settings.policy, part)
        needs = chosen.parameters.needs()
        if needs:
            yield f"{policy}.{part} ({chosen.label}) uses the history of earlier runs", needs


def _setting(settings: Settings, name: str) -> object:
    section, _, key = name.partition(".")
    return getattr(getattr(settings, section), key)
