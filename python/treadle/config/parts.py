"""Parts of a policy, by name.

A policy is put together from five kinds of parts, each chosen in treadle.yaml by its ``kind``. A part is known once it
is registered with the model of its parameters; `treadle.policy.catalogue.register_parts` does so for Treadle's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

PART_KINDS: Final = {
    "gate": "May this ask be served now?",
    "share": "Which queue is owed most?",
    "order": "Which application first?",
    "fit": "Which node for an ask?",
    "estimate": "How long, and how much is left?",
}
"""The kinds of parts and the question that each answers."""

DEFAULTS: Final = {"gate": "all", "share": "capacity", "order": "queue", "fit": "packing", "estimate": "none"}
"""The part of each kind that a policy has unless treadle.yaml says otherwise."""

F = TypeVar("F", bound=Callable[..., Any])


class Parameters(BaseModel):
    """Base of the parameter models: each field has a default, bounds and a description, and others are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)

    @property
    def label(self) -> str:
        """What a part with these parameters is called, if not by its kind; else empty."""
        return ""

    def needs(self) -> tuple[str, ...]:
        """Return the settings, as ``section.key``, of which one must be set for the part to do what it promises."""
        return ()

    def goes_by_estimates(self) -> bool:
        """Return whether a part whose kind may go by estimates (`Traits.estimates`) does so with these parameters."""
        return True

    @classmethod
    def keys(cls) -> dict[str, FieldInfo]:
        """Return the fields as they are called in treadle.yaml."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


class NoParameters(Parameters):
    """Of a part that has nothing to set."""


DURATIONS: Final = "durations"
"""As `Traits.estimates`: how long tasks run, by the policy's estimate."""
TASK_ESTIMATES: Final = "TaskEstimates"
"""As `Traits.estimates`: events of this name."""


@dataclass(frozen=True, slots=True)
class CarriedState:
    """Something that a part keeps from decide to decide."""

    description: str
    """The columns or objects that hold it, with commas between."""
    lookup: str
    """What it is found again by after a snapshot, which gives out all indices anew."""


@dataclass(frozen=True, slots=True)
class Traits:
    """A part's properties, so that no code asks for its name."""

    overrides: bool = True
    """Of a share: queues get other than the RM guarantees them. Of an order or a gate: a queue's applications are
    served otherwise than it says; such a gate holds asks back. Of an estimate: it may know how long a task runs."""
    compares_priorities: bool = False
    """Of an order: application priorities are a part of it, as of YARN's fifo."""
    by_pilots: bool = False
    """Of a gate: it samples how long tasks take. Of an estimate: it goes by what the gate samples."""
    estimates: tuple[str, ...] = ()
    """What it has nothing to go by without: `DURATIONS`, `TASK_ESTIMATES`."""
    keeps: tuple[CarriedState, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A registered part: what makes it, from which parameters."""

    name: str
    parameters: type[Parameters]
    make: Callable[..., Any]
    summary: str
    """The first line of the docstring of what makes it."""
    traits: Traits = field(default_factory=Traits)


@dataclass(frozen=True, slots=True)
class Part:
    """A part as chosen: its kind with checked parameters."""

    kind: Kind
    parameters: Parameters

    @property
    def label(self) -> str:
        """The name of the kind, or what its parameters call it."""
        return self.parameters.label or self.kind.name

    def make(self, *arguments: Any) -> Any:
        """Return a new part; the first argument of its maker is the parameters."""
        return self.kind.make(self.parameters, *arguments)


class PartRegistry:
    """What `register` was called with: for each of the `PART_KINDS` the kinds there are."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Kind]] = {question: {} for question in PART_KINDS}

    def register(
        self, part: str, kind: str, parameters: type[Parameters] = NoParameters, traits: Traits | None = None
    ) -> Callable[[F], F]:
        """Return a decorator for the class or function that makes a part from its parameters.

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
        """Say whether a kind of part is registered."""
        return kind in self._kinds[part]

    def kinds(self, part: str) -> dict[str, Kind]:
        """Return the registered kinds of a part, by name, in order of their names.

        Raises:
            RuntimeError: the default kind is not among them, so that no treadle.yaml could be read.
        """
        kinds = self._kinds[part]
        if DEFAULTS[part] not in kinds:
            # An error of the program; without this it would be reported as an error in the user's policy.
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
