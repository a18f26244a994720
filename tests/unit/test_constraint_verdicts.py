"""What the engine makes of YARN's placement constraints, against the verdicts of a ResourceManager.

`ConstraintVerdictsTest` writes the file: random constraints, judged on the nodes of a real ResourceManager.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from treadle.constraints.placement import NodeFacts, Opaque, TagCount, eligible, understand

GOLDEN = Path(__file__).parents[1] / "golden" / "constraints.json"


def counted(count: TagCount, tags: list[dict[str, int]], racks: list[str], node: int) -> bool:
    """Say whether an application has as many containers with each tag at a node, or in its rack, as it must."""
    there = [at for at in range(len(tags)) if (racks[at] == racks[node] if count.rack else at == node)]
    held = [sum(tags[at].get(tag, 0) for at in there) for tag in count.tags]
    return all(count.least <= one <= count.most for one in held)


def test_what_the_engine_understands_it_judges_as_the_resourcemanager_does() -> None:
    golden: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8"))
    nodes = [NodeFacts(one["attributes"], one["rack"], one["name"]) for one in golden["nodes"]]
    tags, racks = [one["tags"] for one in golden["nodes"]], [one["rack"] for one in golden["nodes"]]
    seen: Counter[str] = Counter()
    for case in golden["cases"]:
        understood = understand(case["text"])
        if isinstance(understood, Opaque):
            seen["opaque"] += 1
            continue
        for node, verdict in enumerate(case["verdicts"]):
            if verdict == "throws":
                continue  # such a request never reaches the scheduler
            held = any(
                eligible(one.where, nodes[node]) and all(counted(count, tags, racks, node) for count in one.counts)
                for one in understood.alternatives
            )
            assert held == (verdict == "true"), (case["text"], node, verdict)
            seen[verdict] += 1
    assert min(seen["true"], seen["false"]) > 100, seen
