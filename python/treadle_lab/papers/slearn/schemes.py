"""What SLearn is compared with (NSDI 2022, section 5.1.3), as policies of the engine.

All but FIFO are the paper's generic scheduler: ten levels, thresholds of 10^6 ms x 10^k, weights falling by 10, first
in, first out within a level. A job's level is that of its estimated task time x tasks; LAS goes by what it has had.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml

from treadle.admin.install import ready_made
from treadle.config.settings import Hold, Settings, default_settings, with_parts
from treadle.policy.catalogue import register_parts

FOREVER_MS: Final = 2**40
"""The paper's pilots have no bound in time."""

LEVELS: Final = ("mlfq", {"size": "whole"})
SCALED: Final = ("pilots", {"scale_history": True})
"""Pilot measurements; where there are none, history's estimates scaled by them."""
SAMPLED: Final = {"pilot_timeout_ms": FOREVER_MS, "hold_timeout_ms": FOREVER_MS}
TRUSTING: Final = 1e6


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to schedule."""

    name: str
    title: str
    parts: dict[str, Any] = field(default_factory=dict)
    """The kinds of parts, with parameters, that are not the default ones."""
    hints: str = ""
    """The estimator whose estimates the engine gets when a job arrives; empty: none."""

    def settings(self, seed: int) -> Settings:
        """Return the engine's settings."""
        register_parts()
        return replace(with_parts(default_settings(), self.parts), hold=Hold(nodes_max=0), seed=seed)


def slearn(name: str = "slearn", title: str = "SLearn", **gate: Any) -> Scheme:
    """Return SLearn with other settings of its gate."""
    parts = {"gate": ("pilots", SAMPLED | gate), "order": LEVELS, "estimate": "pilots", "fit": "first_fit"}
    return Scheme(name, title, parts)


def combined(name: str = "combined", title: str = "Pilots and history (ours)", hints: str = "history") -> Scheme:
    """Return ours, conf/policies/slearn-history.yaml: history has a say while pilots run, and pilots have the last.

    They are so much better than history here that weighing both by their uncertainty (estimate: combined) does worse.
    """
    gate = ("pilots", SAMPLED | {"history_part": 0.2})
    return Scheme(name, title, {"gate": gate, "order": LEVELS, "estimate": SCALED, "fit": "first_fit"}, hints)


def shipped() -> tuple[Scheme, Scheme]:
    """Return slearn.yaml and slearn-history.yaml of conf/policies as they are: with time-outs, and packing.

    The plain model knows neither. Of history the latter gets what the store of profiles says.
    """
    return (
        _ready_made("shipped", "SLearn as it ships", "slearn", ""),
        _ready_made("shipped-history", "SLearn with a store of profiles, as it ships", "slearn-history", "stored"),
    )


def shipped_apart() -> tuple[Scheme, ...]:
    """Return the paper's SLearn with each of what slearn.yaml has besides: its time-outs, one and both, and packing."""
    paper = slearn()

    def without(*timeouts: str) -> dict[str, Any]:
        gate = {name: value for name, value in SAMPLED.items() if name not in timeouts}
        return {**paper.parts, "gate": ("pilots", gate)}

    return (
        Scheme("pilot-timeout", "SLearn, pilots that run for long are replaced", without("pilot_timeout_ms")),
        Scheme("hold-timeout", "SLearn, jobs are held back for a time", without("hold_timeout_ms")),
        Scheme("timeouts", "SLearn, both time-outs", without(*SAMPLED)),
        Scheme("packing", "SLearn, packing", {**paper.parts, "fit": "packing"}),
    )


def _ready_made(name: str, title: str, policy_name: str, hints: str) -> Scheme:
    policy = yaml.safe_load(ready_made()[policy_name].read_text("utf-8"))["policy"]
    return Scheme(name, title, {part: (chosen.pop("kind"), chosen) for part, chosen in policy.items()}, hints)


def _from_history(name: str, title: str, hints: str) -> Scheme:
    return Scheme(name, title, {"order": LEVELS, "estimate": "hints", "fit": "first_fit"}, hints)


THIN_TO_TOP: Final = ("pilots", SAMPLED | {"trusted_deviation": TRUSTING})
"""Thin jobs go to the highest level, and nothing is sampled."""

SCHEMES: Final = (
    slearn(),
    combined(),
    _from_history("3sigma", "3Sigma", "3sigma"),
    Scheme(
        "3sigma-tl",
        "3SigmaTL",
        {"gate": THIN_TO_TOP, "order": LEVELS, "estimate": "hints", "fit": "first_fit"},
        "3sigma",
    ),
    _from_history("point", "Point-Est", "point"),
    _from_history("3sigma-paper", "3Sigma by the paper's letter", "3sigma-paper"),
    _from_history("point-paper", "Point-Est by the paper's letter", "point-paper"),
    _from_history("drawn", "3Sigma with errors drawn as large as the paper's", "drawn"),
    Scheme("las", "LAS", {"order": ("mlfq", {"size": "attained"}), "fit": "first_fit"}),
    Scheme("fifo", "FIFO", {"order": "fifo", "fit": "first_fit"}),
    _from_history("oracle", "Oracle", "oracle"),
    Scheme(
        "exact",
        "SLearn with pilots that tell the truth",
        {"gate": ("pilots", SAMPLED), "order": LEVELS, "estimate": "hints", "fit": "first_fit"},
        "oracle",
    ),
    combined("combined-stored", "Pilots and the store of profiles (ours)", "stored"),
)
"""SLearn, ours, the paper's baselines, strengthened and by its letter, one as wrong as in it, SLearn without errors;
ours with what the store of profiles says in place of history."""


def _dag_slearn() -> Scheme:
    """Return SLearn-DAG: the first stage is sampled, later ones are 3Sigma's, scaled by its pilot measurements."""
    parts = {"gate": ("pilots", SAMPLED | {"tez": True}), "order": LEVELS, "fit": "first_fit"}
    return Scheme("slearn", "SLearn-DAG", parts | {"estimate": SCALED}, "3sigma")


def _dag_combined() -> Scheme:
    ours = combined()
    gate, settings = ours.parts["gate"]
    return replace(ours, parts=ours.parts | {"gate": (gate, settings | {"tez": True})})


OF_DAGS: Final = ("3sigma", "point", "3sigma-paper", "point-paper", "las", "fifo", "oracle")

DAG_SCHEMES: Final = (
    _dag_slearn(),
    _dag_combined(),
    *(scheme for scheme in SCHEMES if scheme.name in OF_DAGS),
)
"""SLearn-DAG, ours, and the baselines: a DAG's size is the sum of its stages'."""
