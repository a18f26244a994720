"""The page of reasons: why a proposal was turned down, why an ask waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from treadle.events import Fate
from treadle.explain.causes import Cause, Verdict, Why
from treadle.explain.obstacles import REASONS, WORDS
from treadle.reference.markdown import code, meanings, table
from treadle.wire.fates import MEANINGS

HEAD: Final = """\
# Reasons

Why the ResourceManager turned a proposal down, and why `treadle explain` says that an ask waits.

```
treadle observe --json         # would_reject: by fate, repeats left out
treadle explain APPLICATION    # verdicts, causes, nodes
```

"""

FATES: Final = """\
## Fates of proposals

The fate of a proposal. Metrics are attributes of the bean `Hadoop:service=ResourceManager,name=Treadle`
([watch.md](../watch.md#watch-it)), codes those of the [wire](../wire-format.md#fates).

"""

CAUSES: Final = """\
## Why an ask waits

`treadle explain` gives an ask every cause that holds
([explain.md](../explain.md)). The gravest is its verdict:

"""

NODES: Final = """\
## Why not on a node

Each node of the partition has one reason, the first of these that holds.

"""


def reasons_page() -> str:
    """Return the page in Markdown."""
    verdicts, causes = meanings(Verdict), meanings(Why)
    return "".join(
        [
            HEAD,
            FATES,
            table(("code", "fate", "metric", "meaning"), _fates()),
            "\n",
            CAUSES,
            table(("verdict", "meaning"), ((code(one.value), verdicts[one.name]) for one in Verdict)),
            "\n",
            table(("cause", "verdict", "meaning"), _causes(causes)),
            "\n",
            NODES,
            table(("reason", "meaning"), ((code(one), _sentence(WORDS[one])) for one in REASONS)),
        ]
    )


def metric_of(fate: Fate) -> str:
    """Return the attribute of the bean that counts a fate, as the shim names it; empty for what it never gives."""
    if fate in (Fate.NOT_OWNER, Fate.CHANGED, Fate.CLAIM):
        return ""
    if fate in (Fate.COMMITTED, Fate.OBSERVED):
        return fate.name.capitalize()
    return "Rejected" + "".join(word.capitalize() for word in fate.name.split("_"))


def _fates() -> Iterator[tuple[str, ...]]:
    for fate in Fate:
        yield str(fate.value), code(fate.name), code(metric_of(fate)) if metric_of(fate) else "", MEANINGS[fate]


def _causes(said: dict[str, str]) -> Iterator[tuple[str, ...]]:
    verdicts = list(Verdict)
    for why in sorted(Why, key=lambda one: verdicts.index(Cause(one, "").verdict)):
        yield code(why.value), code(Cause(why, "").verdict.value), said[why.name]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
