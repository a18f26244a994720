"""Registry of the parts of a policy, by name.

A policy consists of five kinds of parts, each selected in treadle.yaml by its ``kind``. A part is registered with the
model of its parameters; `treadle.policy.catalogue.register_parts` registers the built-in ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

PART_KINDS: Final = {
    "gate": "May this ask be served now?",
    "share": "Which queue comes first?",
    "order": "Which application first?",
    "fit": "Which node for an ask?",
    "estimate": "How long, and how much is left?",
}
"""The kinds of parts and the question that each answers."""

DEFAULTS: Final = {"gate": "all", "share": "capacity", "order": "queue", "fit": "packing", "estimate": "none"}
"""The default part of each kind."""

F = TypeVar("F", bound=Callable[..., Any])


class Parameters(BaseModel):
    """Base of the parameter models: each field has a default, bounds and a description; unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)

    @property
    def label(self) -> str:
        """The name of a part with these parameters, if different from its kind; else empty."""
        return ""

    def needs(self) -> tuple[str, ...]:
        """Return alternative settings, as ``section.key``, one of which the part requires."""
        return ()

    def uses_estimates(self) -> bool:
        """Return whether a part that may use estimates (`Traits.estimates`) does so with these parameters."""
        return True

    @classmethod
    def keys(cls) -> dict[str, FieldInfo]:
        """Return the fields by their names in treadle.yaml."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


class NoParameters(Parameters):
    """Parameters of a part without parameters."""


DURATIONS: Final = "durations"
"""Value of `Traits.estimates`: task durations by the policy's estimate."""
TASK_ESTIMATES: Final = "TaskEstimates"
"""Value of `Traits.estimates`: events of this name."""


@dataclass(frozen=True, slots=True)
class Traits:
    """A part's properties, so that code never tests its name."""

    overrides: bool = True
    """For a share: it ignores the RM's guarantees. For an order or a gate: it ignores the queue's ordering policy; such
    a gate holds requests back. For an estimate: it may know task durations."""
    compares_priorities: bool = False
    """For an order: it compares application priorities, as YARN's FIFO does."""
    by_pilots: bool = False
    """For a gate: it samples task durations. For an estimate: it uses these samples."""
    estimates: tuple[str, ...] = ()
    """Required inputs: `DURATIONS`, `TASK_ESTIMATES`."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A registered part: its constructor and parameters."""

    name: str
    parameters: type[Parameters]
    make: Callable[..., Any]
    summary: str
    """The first line of the constructor's docstring."""
    traits: Traits = field(default_factory=Traits)


@dataclass(frozen=True, slots=True)
class Part:
    """A selected part: its kind with validated parameters."""

    kind: Kind
    parameters: Parameters

    @property
    def label(self) -> str:
        """The name of the kind, or the parameters' label."""
        return self.parameters.label or self.kind.name

    def make(self, *arguments: Any) -> Any:
        """Return a new part; the first argument of its constructor is the parameters."""
        return self.kind.make(self.parameters, *arguments)


class PartRegistry:
    """The registered kinds for each of the `PART_KINDS`."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Kind]] = {question: {} for question in PART_KINDS}

    def register(
        self, part: str, kind: str, parameters: type[Parameters] = NoParameters, traits: Traits | None = None
    ) -> Callable[[F], F]:
        """Return a decorator for the class or function that creates a part from its parameters.

        Raises:
            ValueError: there is no such kind of part, or the name is taken.
        """
        if part not in self._kinds:
            raise ValueError(f"{part!r} is not one of {', '.join(PART_KINDS)}")
        if kind in self._kinds[part]:
            raise ValueError(f"{part}.{kind} is registered twice")

        def decorate(make: F) -> F:
            summary = (make.__doc__ or "").strip().partition("\n")[0]
            self._kinds[part][kind] = Kind(kind, parameters, make, summary, traits or Traits())
            return make

        return decorate

    def has(self, part: str, kind: str) -> bool:
        """Return whether a kind of part is registered."""
        return kind in self._kinds[part]

    def kinds(self, part: str) -> dict[str, Kind]:
        """Return the registered kinds of a part, sorted by name.

        Raises:
            RuntimeError: the default kind is missing, so that no treadle.yaml could be read.
        """
        kinds = self._kinds[part]
        if DEFAULTS[part] not in kinds:
            # A program error; otherwise it would be reported as an error in the user's policy.
            raise RuntimeError(
                f"{part}.{DEFAULTS[part]} is not registered; call treadle.policy.catalogue.register_parts()"
            )
        return dict(sorted(kinds.items()))

    def default(self, part: str) -> Part:
        """Return the default part with its default parameters."""
        kind = self.kinds(part)[DEFAULTS[part]]
        return Part(kind, kind.parameters())


PARTS: Final = PartRegistry()
"""The parts that a treadle.yaml may name: none until `treadle.policy.catalogue.register_parts` has been called."""
