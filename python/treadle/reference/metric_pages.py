"""The page of metrics: what `/metrics` of the dashboard has for Prometheus."""

from __future__ import annotations

from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from treadle.dashboard.history import Condition
from treadle.dashboard.reading import Decisions, Nodes, Queue
from treadle.dashboard.views import View, exposition
from treadle.reference.markdown import code, table

HEAD: Final = """\
# Metrics

What `treadle dashboard` shows Prometheus at `/metrics`, of the latest look at the ResourceManager.
[dashboard.md](../dashboard.md#prometheus) has what Prometheus needs to read it, and what is missing while the
ResourceManager is lost or on standby. `curl` shows it too:

```
curl -H "Authorization: Bearer $(cat ~/.local/state/treadle/dashboard/token)" http://127.0.0.1:8190/metrics
```

"""

TAIL: Final = """
The ResourceManager has more: attributes of JMX beans, and Hadoop's metrics2 for its own sinks:

| what | page |
| --- | --- |
| the bean `Treadle`: state, decisions, traffic, trouble | [watch.md](../watch.md#watch-it) |
| its attribute `Engines`, of several engines | [several engines](../run-several-engines.md#watch-it) |
| `Rejected<Reason>`, a counter for each reason | [reasons.md](reasons.md#fates-of-proposals) |
| records `TreadleAgreement` of mode `observe_only` | [observe.md](../observe.md) |
"""


def metrics_page() -> str:
    """Return the page in Markdown."""
    rows = [
        (code(_name(family)), family.type, ", ".join(map(code, _labels(family))), family.documentation)
        for family in text_string_to_metric_families(exposition(_example()).decode())
    ]
    return HEAD + table(("metric", "type", "labels", "meaning"), rows) + TAIL


def _name(family: Any) -> str:
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def _labels(family: Any) -> list[str]:
    return sorted({label for sample in family.samples for label in sample.labels})


def _example() -> View:
    """Return a look that has one of everything, so that every metric and label is there."""
    queue = Queue(
        path="root",
        depth=0,
        leaf=True,
        state="RUNNING",
        guaranteed=1.0,
        maximum=1.0,
        used=0.0,
        pending=0.0,
        reserved=0.0,
        running=0,
        waiting=0,
        containers=0,
    )
    engines = [{"engine": "first", "committed": 0, "lives": True}]
    return View(
        rm="",
        state="ACTIVE",
        heard_s=1.0,
        decisions=Decisions("", {}, {}, {"NODE_FULL": 0}, engines),
        nodes=Nodes(name=["node1"], state=["RUNNING"]),
        queues=[queue],
        conditions=(Condition("wrong", "warning", "", 1.0),),
    )
