"""Writes the files in which the loop finds the compiled steps of the chosen share, order and fit, from the catalogue.

`python -m treadle.policy.dispatch` after a line of `treadle.policy.catalogue` with ``steps`` has come, changed or gone.
They are files, and no functions made at start-up, because numba keeps compiled code only of what is in a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from treadle.policy.catalogue import OWN


@dataclass(frozen=True, slots=True)
class Step:
    """A function that the file of a part may have."""

    name: str
    says: str
    arguments: tuple[str, ...]
    """Besides the tables and, but for an order's, the parameters: integers."""
    returns: str = "None"
    otherwise: str = ""
    """What is returned for a part that has no such function."""


@dataclass(frozen=True, slots=True)
class Sort:
    """Shares, orders or fits."""

    folder: str
    chosen_by: str
    """The number of the chosen part, in the generated code."""
    steps: tuple[Step, ...]
    parameters: bool = True
    """Whether the functions take the parameters."""


LEAF: Final = ("leaf", "row", "partition")
SORTS: Final = {
    "share": Sort(
        "shares",
        "parameters.share",
        (
            Step("aim", "Work out, now and then, where leaves are to be in the partition.", ("partition",)),
            Step("begin", "Work out what every queue is owed in the partition.", ("partition",)),
            Step("pick", "Return the leaf queue that is served next, or -1.", ("partition",), "int", "-1"),
            Step("lets_order_decide", "Say whether the order alone decides which queue is next.", (), "bool", "False"),
            Step("note", "Follow a container that was just proposed for an ask of a leaf queue.", LEAF),
            Step("update", "Follow a change of the use or the asks of a leaf of the tree.", ("at", "partition")),
            Step("end", "Keep what goes on when all is computed anew.", ("partition",)),
        ),
    ),
    "order": Sort(
        "orders",
        "scratch.queues[leaf].order",
        (
            Step(
                "key",
                "Return an application's key as it is now, the smallest first.",
                ("leaf", "app"),
                "float",
                "0.0",
            ),
        ),
        parameters=False,
    ),
    "fit": Sort(
        "fits",
        "parameters.fit",
        (
            Step(
                "score",
                "Return how well an ask fits on a node with room.",
                ("row", "node", "level"),
                "float",
                "0.0",
            ),
        ),
    ),
}
"""For each sort of part that has compiled steps what the loop calls."""

FIRST: Final = {"share": 0, "order": 16, "fit": 0}
"""The first number of each sort: orders have those below for leaves (`treadle.policy.state`)."""

GIVEN: Final = {"fair": 1}
"""Numbers that are not given here: of YARN's fair ordering policy, `treadle.model.queues.FAIR`."""


def numbers(sort: str) -> dict[str, int]:
    """Return the number of each file with compiled steps, in the order of their names."""
    files = sorted({own.traits.steps for own in OWN if own.part == sort and own.traits.steps})
    free = iter(range(FIRST[sort], 255))
    return {file: GIVEN[file] if file in GIVEN else next(free) for file in files}


def written(sort: str) -> str:
    """Return the text of the file ``rules.py`` of a sort."""
    described, found = SORTS[sort], numbers(sort)
    modules = {file: import_module(f"treadle.policy.{described.folder}.{file}") for file in found}
    imported = "DecideParameters, Scratch" if described.parameters else "Scratch"
    lines = [
        f'"""The compiled steps of the {sort} that was chosen. Written by `python -m treadle.policy.dispatch`."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING, Final",
        "",
        "from treadle.compiled.functions import inner",
        f"from treadle.policy.{described.folder} import {', '.join(found)}",
        "",
        "if TYPE_CHECKING:",
        "    from treadle.model.tables import View",
        f"    from treadle.policy.state import {imported}",
        "",
        "RULES: Final = {" + ", ".join(f'"{file}": {number}' for file, number in found.items()) + "}",
        '"""The number of each file with compiled steps."""',
    ]
    if sort == "order":
        lines += ["", "", *_follows_use(found)]
    for step in described.steps:
        lines += ["", "", *_dispatcher(step, described, found, modules)]
    return "\n".join(lines) + "\n"


def _follows_use(found: dict[str, int]) -> Iterator[str]:
    yield "@inner"
    yield "def follows_use(order: int) -> bool:"
    yield '    """Say whether keys follow what is used as containers are placed: `key` has them."""'
    yield "    return " + " or ".join(f"order == {number}" for number in found.values())


def _dispatcher(step: Step, sort: Sort, found: dict[str, int], modules: dict[str, ModuleType]) -> Iterator[str]:
    tables = {"view": "View", "scratch": "Scratch"} | ({"parameters": "DecideParameters"} if sort.parameters else {})
    taken = tables | dict.fromkeys(step.arguments, "int")
    yield "@inner"
    yield f"def {step.name}({', '.join(f'{name}: {kind}' for name, kind in taken.items())}) -> {step.returns}:"
    yield f'    """{step.says}"""'
    for file, module in modules.items():
        if _has(module, step.name):
            call = f"{file}.{step.name}({', '.join(taken)})"
            yield f"    if {sort.chosen_by} == {found[file]}:"
            yield f"        return {call}" if step.otherwise else f"        {call}"
    if step.otherwise:
        yield f"    return {step.otherwise}"


def _has(module: ModuleType, name: str) -> bool:
    """Say whether a function is the module's own, not one that it imports."""
    function: Any = getattr(module, name, None)
    return function is not None and function.py_func.__module__ == module.__name__


def place_of(sort: str) -> Path:
    """Return where the file of a sort is."""
    return Path(__file__).with_name(SORTS[sort].folder) / "rules.py"


def write() -> None:
    """Write all files."""
    for sort in SORTS:
        place_of(sort).write_text(written(sort), "utf-8")


if __name__ == "__main__":
    write()
