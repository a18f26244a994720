"""The cases of tests/golden/expressions.json, which Java and Python judge alike.

``python -m tests.support.expressions`` writes them; the file is its output.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any, Final

from treadle.constraints import Conjunction, ExpressionError, NodeFacts, parse


def eligible(conjunction: Conjunction, facts: NodeFacts) -> bool:
    """Say whether a node meets a conjunction."""
    return all(one.holds(facts.values(one.name, exact=one.exact)) for one in conjunction.predicates)


SEED: Final = 18

PLAIN: Final[dict[str, Any]] = {
    "attributes": {"rm.yarn.io/zone": "A", "nm.yarn.io/kernel": "4.18.0", "rm.yarn.io/java": "1.8"},
    "rack": "/Rack1",
    "host": "Node1.example.com:8041",
    "partition": "",
    "totals": {"memory-mb": 16384, "vcores": 16, "yarn.io/gpu": 2},
}
TWICE: Final[dict[str, Any]] = {
    "attributes": {"rm.yarn.io/zone": "a", "nm.yarn.io/zone": "b", "nm.yarn.io/vcores": "99", "x.org/word": "x1"},
    "rack": "/default-rack",
    "host": "10.0.0.1",
    "partition": "GPU",
    "totals": {"memory-mb": 4096, "vcores": 4},
}
BARE: Final[dict[str, Any]] = {
    "attributes": {},
    "rack": "/default-rack",
    "host": "bare",
    "partition": "default",
    "totals": {"memory-mb": 1024, "vcores": 1, "yarn.io/gpu": 0},
}
NODES: Final = (PLAIN, TWICE, BARE)

RIGHT: Final = (
    "zone=a",
    "zone=A",
    "ZONE = a | b",
    "zone!=a",
    "zone!=b",
    "zone!=c|d",
    "rm.yarn.io/zone=a",
    "nm.yarn.io/zone=b",
    "other.io/zone=a",
    "kernel>=4.18",
    "kernel>=4.18.0.0",
    "kernel>4.18",
    "kernel<4.9",
    "kernel<=4.18",
    "kernel>=4.018",
    "kernel=4.18",
    "kernel!=4.18.0",
    "kernel>=10",
    "java=1.80",
    "java=1.8;zone=a",
    "zone=a ; java>=1.7; kernel<5",
    "absent=1",
    "absent!=1",
    "absent>=0",
    "absent<1",
    "word>0",
    "word=x1|x2",
    "rack=/rack1",
    "rack!=/rack1",
    "host=node1.example.com",
    "host=10.0.0.1",
    "host=10.0.0.01",
    "host=node1.example.com|bare",
    "partition=default",
    "partition=gpu",
    "partition!=gpu",
    "memory-mb>=4096",
    "vcores>=5",
    "vcores=99",
    "nm.yarn.io/vcores=99",
    "yarn.io/gpu>=1",
    "yarn.io/gpu=0",
    "yarn.io/gpu!=1",
    "gpu>=1",
    "zone=a;zone=a",
    "zone=a;zone=b",
    "zone=b|a|a",
    "vcores>=00000000000000000000000000000004",
    "memory-mb<99999999999999999999999999999999",
    "zone=a value of words",
    "n=" + "1" * 998,
)
WRONG: Final = (
    "",
    " ",
    ";",
    "zone",
    "zone ",
    "zone=",
    "zone= ",
    "zone=|a",
    "zone=a|",
    "zone=a;",
    ";zone=a",
    "zone=a;;b=c",
    "=a",
    "zone==a",
    "zone=a=b",
    "zone=>4",
    "zone<>4",
    "zone!a",
    "zone=a&java=1",
    "kernel>=x",
    "kernel>=4|5",
    "kernel>4.",
    "kernel<.4",
    "kernel<=4..1",
    "kernel>-1",
    "kernel>1e3",
    "a/b/c=1",
    "/b=1",
    "b/=1",
    "-b=1",
    "my zone=a",
    "zone~a",
    "zone=\t",
    "zone=\n",
    "zone=ä",
    "zoné=a",
    "zone=\x7f",
    "kernel>=\u0664",
    "n=" + "1" * 999,
)


def facts_of(node: dict[str, Any]) -> NodeFacts:
    """Return a node of the file."""
    return NodeFacts(**node)


def case(text: str, node: int) -> dict[str, Any]:
    """Return a case: the verdict for a node, or where the text is wrong."""
    try:
        found = parse(text)
    except ExpressionError as error:
        return {"text": text, "at": error.at, "error": error.reason}
    return {"text": text, "node": node, "canonical": found.text(), "verdict": eligible(found, facts_of(NODES[node]))}


def drawn(draws: random.Random) -> str:
    """Return a requirement of one to four conditions, right more often than not."""
    names = ["zone", "Kernel", "java", "rack", "host", "partition", "vcores", "memory-mb", "yarn.io/gpu", "absent"]
    values = ["a", "B", "1.8", "4.18", "4.18.0", "4", "0", "2", "16", "/rack1", "bare", "gpu", "default", "x 1", ""]
    parts = []
    for _ in range(draws.randint(1, 4)):
        op = draws.choice(["=", "=", "!=", ">=", ">", "<=", "<"])
        pool = values if op in {"=", "!="} else ["1", "1.8", "4.18", "4.18.1", "16", "04", "a"]
        count = draws.choice([1, 1, 1, 2, 3]) if op in {"=", "!="} else 1
        gap = draws.choice(["", "", " "])
        parts.append(f"{gap}{draws.choice(names)}{gap}{op}{gap}{'|'.join(draws.choices(pool, k=count))}")
    return ";".join(parts)


def document() -> dict[str, Any]:
    """Return the file."""
    draws = random.Random(SEED)
    cases = [case(text, node) for text in RIGHT for node in range(len(NODES))]
    cases += [case(text, 0) for text in WRONG]
    cases += [case(drawn(draws), draws.randrange(len(NODES))) for _ in range(200)]
    return {"nodes": list(NODES), "cases": cases}


def written() -> str:
    """Return the file's text."""
    made = document()
    lines = ",\n".join(json.dumps(one) for one in made["cases"])
    nodes = ",\n".join(json.dumps(one) for one in made["nodes"])
    return f'{{"nodes": [\n{nodes}\n], "cases": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    sys.stdout.write(written())
