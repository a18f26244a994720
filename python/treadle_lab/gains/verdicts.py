"""Whether a policy is one to recommend: a verdict on each thing that such a policy must do, over paired draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from treadle.config.part_files import missing
from treadle.config.reader import read_settings
from treadle.errors import UserError, percent
from treadle.policy.catalogue import register_parts
from treadle.simulate.batch import SIZES, size_of
from treadle.simulate.comparison import Verdict
from treadle_lab.gains.cell import BASELINE, REFERENCES, STOCK, drawn, file_of
from treadle_lab.gains.page import LATE, MEAN, WORST, Results
from treadle_lab.gains.workloads import FIRST_SEED, HOURS, POINTS
from treadle_lab.rows import Table

BOUNDED: Final = "bounded slowdown, mean"
WAIT: Final = "wait, mean"
BEHIND_MAX: Final = 2.0
"""Per cent that it may be behind the best stock order, and on Spark behind `fair`, by the upper end of the interval."""
GAP_MIN: Final = 5.0
"""Per cent between the best stock order and the better reference that count as a gap."""
CLOSED_MIN: Final = 2 / 3
REFERENCE_MAX: Final = 10.0
"""Per cent that it may be behind the better reference where there is a gap."""
CLASS_MAX: Final = {MEAN: 5.0, BOUNDED: 10.0}
"""Per cent by which a class of sizes may be worse than under `fair`."""
CLASS_JOBS: Final = 100
"""Jobs of a class in a draw; of smaller ones the figures are reported only."""

Word = Literal["passed", "failed", "undecided", "reported"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A result at a point."""

    asked: str
    """One of `QUESTIONS`."""
    x: str
    what: str
    value: str
    word: Word


QUESTIONS: Final = {
    "stock": f"at most {BEHIND_MAX:.0f} % behind the best stock order",
    "gap": "two thirds of the gap in waits to the better reference are closed",
    "sizes": "no size class ends later or is slowed more than under fair",
    "Spark": f"at most {BEHIND_MAX:.0f} % behind fair on Spark",
    "starves": "starves no job: tests/engine/test_fair_finish.py says so of fair-finish",
    "needs": "needs no profile, plug-in or hints",
}


def findings(results: Results, policy: str, needs: list[str]) -> list[Finding]:
    """Return all results of a policy, question by question; ``needs`` are its requirements."""
    xs = [x for x in results.xs if not POINTS[x].only and results.values(x, policy, MEAN)]
    found = [Finding("needs", "", policy, "; ".join(needs) or "nothing", _word(not needs))]
    for x in xs:
        found += _behind(results, policy, x, "", "stock")
        found += _gap(results, policy, x)
        found += _sizes(results, policy, x)
        if POINTS[x].workload.startswith("Spark"):
            found += _behind(results, policy, x, BASELINE, "Spark")
    return [each for question in QUESTIONS for each in found if each.asked == question]


def verdict_tables(results: Results, policy: str) -> list[Table]:
    """Return what did not pass, which jobs lose, and the verdicts.

    Raises:
        UserError: there is no such policy, or no row of it.
    """
    needs = needs_of(policy)
    if not any(results.values(x, policy, MEAN) for x in results.xs):
        raise UserError(f"--policy: there are no rows of {policy}; run its cells, without --from")
    found = findings(results, policy, needs)
    return [details(found), losers(results, policy), summary(found)]


def summary(all_findings: list[Finding]) -> Table:
    """Return how each question is answered: passed if it is at all points."""
    rows = []
    for question, text in QUESTIONS.items():
        words = Counter(each.word for each in all_findings if each.asked == question)
        word = next((word for word in ("failed", "undecided", "passed") if words[word]), "reported")
        counts = ", ".join(
            f"{words[word]} {word}" for word in ("passed", "undecided", "failed", "reported") if words[word]
        )
        rows.append((text, word, counts))
    return Table("Verdict", ("bullet", "verdict", "points and figures"), rows)


def details(all_findings: list[Finding]) -> Table:
    """Return all that did not pass."""
    rows = [(each.asked, each.x, each.what, each.value, each.word) for each in all_findings if each.word != "passed"]
    return Table("Not passed, or reported only", ("bullet", "point", "figure", "value", "verdict"), rows)


def losers(results: Results, policy: str) -> Table:
    """Return how many jobs lose, and the worst."""
    rows = [
        (x, percent(results.mean(x, policy, LATE), ".1f"), f"{results.mean(x, policy, WORST):.3g} x")
        for x in results.xs
        if results.values(x, policy, LATE)
    ]
    return Table("Jobs that lose", ("point", "over 10 % later than under fair", "worst job"), rows)


def _word(passed: bool) -> Word:
    return "passed" if passed else "failed"


def _bounded(verdict: Verdict, most: float) -> Word:
    """Return whether the whole interval of a change is at most so many per cent."""
    if verdict.high <= most:
        return "passed"
    return "failed" if verdict.low > most else "undecided"


def _best(results: Results, x: str, names: tuple[str, ...], figure: str) -> str:
    there = [name for name in names if results.values(x, name, figure)]
    return min(there, key=lambda name: results.mean(x, name, figure))


def _behind(results: Results, policy: str, x: str, other: str, asked: str) -> Iterator[Finding]:
    for figure in (MEAN, BOUNDED):
        name = other or _best(results, x, tuple(STOCK), figure)
        verdict = results.verdict(x, policy, figure, (x, name))
        yield Finding(asked, x, f"{figure}, against {name}", str(verdict), _bounded(verdict, BEHIND_MAX))


def _gap(results: Results, policy: str, x: str) -> Iterator[Finding]:
    """Yield what part of the gap is closed, if there is one, and how far the policy is behind the reference."""
    stock, reference = _best(results, x, tuple(STOCK), MEAN), _best(results, x, tuple(REFERENCES), MEAN)
    gap = results.verdict(x, reference, MEAN, (x, stock))
    if gap.change > -GAP_MIN or gap.word != "less":
        return
    its, best, mine = (results.mean(x, name, WAIT) for name in (stock, reference, policy))
    closed = (its - mine) / (its - best)
    yield Finding("gap", x, f"wait closed from {stock} to {reference}", percent(closed), _word(closed >= CLOSED_MIN))
    behind = results.verdict(x, policy, MEAN, (x, reference))
    yield Finding("gap", x, f"{MEAN}, against {reference}", str(behind), _word(behind.change <= REFERENCE_MAX))


def _sizes(results: Results, policy: str, x: str) -> Iterator[Finding]:
    for _, name in SIZES:
        for figure, most in CLASS_MAX.items():
            verdict = results.verdict(x, policy, f"{figure}, {name}")
            if verdict.draws:
                word = _word(verdict.change <= most) if _class_jobs(x)[name] >= CLASS_JOBS else "reported"
                if word != "reported" or verdict.change > most:
                    yield Finding("sizes", x, f"{figure}, {name}", str(verdict), word)


@cache
def _class_jobs(x: str) -> Counter[str]:
    """Return how many jobs of each class a draw has, by the first one."""
    return Counter(size_of(sum(stage.tasks for stage in job.dag.stages)) for job in drawn(x, FIRST_SEED, HOURS)[1].jobs)


def needs_of(policy: str) -> list[str]:
    """Return what a policy needs besides itself."""
    register_parts()
    settings = read_settings(file_of(policy))
    parts = [getattr(settings.policy, part) for part in ("gate", "order", "estimate")]
    labels = [part.label for part in parts if "TaskEstimates" in part.kind.traits.estimates]
    return [*missing(settings), *(f"{label} uses hints" for label in labels)]
