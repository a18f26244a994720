"""The pages of docs/reference: commands, settings, metrics and reasons, from the code.

`python -m treadle_lab.docs.reference docs/reference` writes the pages of that folder again.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin
from unittest.mock import patch

import yaml
from annotated_types import Ge, Gt, Le, Lt, MaxLen
from prometheus_client.parser import text_string_to_metric_families
from pydantic.fields import FieldInfo

from treadle.cli import main
from treadle.config.parts import DEFAULTS, PART_KINDS, PARTS, Parameters
from treadle.config.settings import IGNORE_PRIORITY, IGNORES_PRIORITY, SECTIONS, Entry, Retry, Select
from treadle.dashboard.collector import View, exposition
from treadle.dashboard.history import Condition
from treadle.dashboard.reading import Agreement, Decisions, Nodes, Queue
from treadle.events import Fate
from treadle.explain import NODE_TEXTS, Cause, Verdict, Why
from treadle.policy.catalogue import register_parts
from treadle.policy.state import Reason
from treadle_lab.rows import Table, markdown


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a ``|`` in a cell stays one."""
    return markdown(Table("", list(map(cell, heading)), [list(map(cell, row)) for row in rows]))


def cell(text: str) -> str:
    """Return a text as one line of a table has it; its code in single backquotes, as Markdown has it."""
    plain = re.sub(r"\s+", " ", text.replace("``", "`")).strip()
    return plain.replace("|", r"\|")


def code(text: str) -> str:
    """Return a text as code."""
    return f"`{text}`"


def meanings(kind: type[Enum]) -> dict[str, str]:
    """Return the docstring of each member of an enumeration, by the member's name.

    Raises:
        ValueError: a member has none.
    """
    (defined,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(defined, ast.ClassDef)
    texts = {}
    for line, after in zip(defined.body, [*defined.body[1:], None], strict=True):
        if isinstance(line, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            (target,) = line.targets
            assert isinstance(target, ast.Name)
            texts[target.id] = cell(str(after.value.value))
    missing = [member.name for member in kind if member.name not in texts]
    if missing:
        raise ValueError(f"{kind.__name__}: nothing says what {', '.join(missing)} means; write a docstring below it")
    return texts


COLUMNS: Final = 100
"""Width of the terminal; Typer uses at most 80 columns."""

COMMANDS_HEAD: Final = """\
# Commands

The commands of `treadle`, as `treadle COMMAND --help` describes them. Results go to standard output, everything else to
standard error; `-o json` prints results as JSON. `-q` shows no progress, `-v` details and the origin of an error.
`treadle --install-completion` lets the shell complete commands and options.

| exit code | meaning |
| --- | --- |
| 0 | The command succeeded. |
| 1 | It has run, and a check failed, a part of the work failed, or no engine answers. |
| 2 | Wrong usage, a file that is wrong, or a server that does not answer; standard error says what to do. |
| 130 | Ctrl-C ended it; 128 and the number of the signal for others. |

"""
LABORATORY: Final = """
## Commands of a checkout

A checkout has these too, a wheel has not. `treadle COMMAND --help` lists their options.

"""


def commands_page() -> str:
    """Return the page in Markdown: the product's commands with their options, the laboratory's by name."""
    product, laboratory = (command_paths(folder) for folder in main.sources().values())
    chapters = [f"## `treadle {' '.join(path)}`\n\n```text\n{help_of(path)}```\n" for path in product]
    rows = [(code(f"treadle {' '.join(path)}"), _found(path).help.partition("\n\n")[0]) for path in laboratory]
    return COMMANDS_HEAD + "\n".join(chapters) + LABORATORY + table(("command", "what it does"), rows)


def command_paths(*folders: Path) -> list[tuple[str, ...]]:
    """Return the words of each command without groups: the product's, then the laboratory's, or of given folders."""
    chosen = folders or main.sources().values()
    return [path for folder in chosen for name in main.commands(folder) for path in _below((name,))]


def _below(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    inside = getattr(_found(path), "commands", None)
    if inside is None:
        yield path
        return
    for name in inside:
        yield from _below((*path, name))


def _found(path: tuple[str, ...]) -> Any:
    from typer.main import get_command

    command: Any = get_command(main.application(path))
    for word in path:
        command = command.commands[word]
    return command


def help_of(path: tuple[str, ...]) -> str:
    """Return what a command prints with --help, whatever terminal and user this is run for."""
    printed = io.StringIO()
    with patch.dict(os.environ, COLUMNS=str(COLUMNS)), contextlib.redirect_stdout(printed):
        code = main.run([*path, "--help"])
    if code != 0:
        raise ValueError(f"treadle {' '.join(path)} --help ends with exit code {code}")
    text = printed.getvalue().replace(str(Path.home()), "~")
    shown = (line for line in text.splitlines() if not re.match(r"  -[qv], --", line))  # they are in the page's head
    return "".join(f"{line.rstrip()}\n" for line in shown)


METRICS_HEAD: Final = """\
# Metrics

What `treadle dashboard` shows Prometheus at `/metrics`, of the latest look at the ResourceManager.
[Dashboard](../dashboard.md#prometheus) says how Prometheus reads it, and which ones are absent while the
ResourceManager is lost or on standby. `curl` shows it too:

```
curl -H "Authorization: Bearer $(cat ~/.local/state/treadle/dashboard/token)" http://127.0.0.1:8190/metrics
```

"""

TAIL: Final = """
The ResourceManager has more: attributes of JMX beans, and Hadoop's metrics2 for its own sinks:

| what | page |
| --- | --- |
| the bean `Treadle`: state, decisions, traffic, trouble | [Monitor](../watch.md#watch-it) |
| `Engines` in its attribute `Status`, of several engines | [Several engines](../several-engines.md#watch-them) |
| `Rejected<Reason>`, a counter for each reason | [Reasons](reasons.md#fates-of-proposals) |
"""


def metrics_page() -> str:
    """Return the page in Markdown."""
    rows = [
        (code(_name(family)), family.type, ", ".join(map(code, _labels(family))), family.documentation)
        for family in text_string_to_metric_families(exposition(_example()).decode())
    ]
    return METRICS_HEAD + table(("metric", "type", "labels", "meaning"), rows) + TAIL


def _name(family: Any) -> str:
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def _labels(family: Any) -> list[str]:
    return sorted({label for sample in family.samples for label in sample.labels})


def _example() -> View:
    """Return a view with one of everything, so that it has every metric and label."""
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
        observed={None: Agreement(0, 0, 0), "root": Agreement(0, 0, 0)},
        conditions=(Condition("wrong", "warning", "", 1.0),),
    )


REASONS_HEAD: Final = """\
# Reasons

Why the ResourceManager turned a proposal down, and why `treadle explain` says that an ask waits.

```
treadle observe -o json        # would_reject: by fate, repeats left out
treadle explain APPLICATION    # verdicts, causes, nodes
```

"""

MEANINGS: Final[Mapping[Fate, str]] = {
    Fate.COMMITTED: "The container was placed.",
    Fate.UNKNOWN_APPLICATION: "The ResourceManager has the application no more.",
    Fate.FINISHED_ATTEMPT: "Another attempt of the application is current.",
    Fate.STOPPED_ATTEMPT: "The attempt has been stopped.",
    Fate.INACTIVE_APPLICATION: "The application is not activated (limit of masters, parallel applications).",
    Fate.UNKNOWN_REQUEST: "A request key that this application was never given.",
    Fate.NO_PENDING_ASK: "Nothing is asked for any more under that request key.",
    Fate.UNKNOWN_NODE: "The ResourceManager has the node no more.",
    Fate.NODE_NOT_RUNNING: "The node is not RUNNING.",
    Fate.NODE_STALE: "No recent heartbeat of the node has come.",
    Fate.NODE_RESERVED: "The ResourceManager has reserved the node.",
    Fate.BLACKLISTED: "The application has blacklisted the node or its rack.",
    Fate.WRONG_PARTITION: "The node is not in the partition of the ask.",
    Fate.LOCALITY: "relaxLocality is off and the node is elsewhere.",
    Fate.CONSTRAINT: "The node does not meet the application's requirements.",
    Fate.CONTAINER_UPDATE: "A resize or promotion, which the shim places itself.",
    Fate.NODE_FULL: "The node has too little left, in any resource that the calculator counts.",
    Fate.QUEUE_MAXIMUM: "A queue would be above its maximum.",
    Fate.USER_LIMIT: "The user would be above the limit.",
    Fate.DUPLICATE: "The same proposal again, and no ask is left.",
    Fate.OUT_OF_RANGE: "An application or node never given out.",
    Fate.OVER_BATCH: "Beyond the frame's limit of proposals, or its turn had not come when half a lease was over.",
    Fate.LEASE_LOST: "The engine had lost the lease by then.",
    Fate.NOT_READY: "The ResourceManager is still recovering.",
    Fate.STALE_STATE: "The ResourceManager said no and the reason had gone when the shim looked.",
    Fate.INTERNAL_ERROR: "An exception, which the ResourceManager's log has.",
    Fate.OBSERVED: "It would have been committed (mode `observe_only`).",
    Fate.NEGATIVE: "An index below zero.",
    Fate.NOT_OWNER: "Several engines only: another engine serves the application.",
    Fate.CHANGED: "Several engines only: others have committed on the node since the frame that was decided on.",
    Fate.TRANSACTION: "Another row of the transaction cannot be committed, or it has more than 512, or is for more "
    "than one application.",
    Fate.CLAIM: "Several engines only: the engine's applications would use more of the partition than its `claim`.",
}

FATES: Final = """\
## Fates of proposals

Metrics are in the attribute `Status` of the bean `Hadoop:service=ResourceManager,name=Treadle`
([Monitor](../watch.md#watch-it)), codes those of the [wire](../wire-format.md#fates).

"""

CAUSES: Final = """\
## Why an ask waits

When the policy's loop comes to a request, it records one of these reasons:

"""

SAID: Final = """\
`treadle explain` ([Troubleshoot](../failures.md#why-an-application-waits)) shows this reason, and how many of the
latest decisions have not come to the request. With amounts and the reasons of nodes it becomes a cause.
The gravest cause is the verdict:

"""

NODES: Final = """\
## Why not on a node

Each node of the partition has one reason, the first of these that holds.

"""


def reasons_page() -> str:
    """Return the page in Markdown."""
    verdicts, causes, said = meanings(Verdict), meanings(Why), meanings(Reason)
    nodes = ((code(one.name.lower()), f"{text[:1].upper()}{text[1:]}.") for one, text in NODE_TEXTS.items() if one)
    return "".join(
        [
            REASONS_HEAD,
            FATES,
            table(("code", "outcome", "metric", "meaning"), _fates()),
            "\n",
            CAUSES,
            table(("reason", "meaning"), ((code(one.name.lower()), said[one.name]) for one in Reason)),
            "\n",
            SAID,
            table(("verdict", "meaning"), ((code(one.value), verdicts[one.name]) for one in Verdict)),
            "\n",
            table(("cause", "verdict", "meaning"), _causes(causes)),
            "\n",
            NODES,
            table(("reason", "meaning"), nodes),
        ]
    )


def metric_of(fate: Fate) -> str:
    """Return the bean's attribute with the count of a fate, by the shim's names; empty if it never occurs."""
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


HEADING: Final = ("key", "default", "values", "meaning")

SETTINGS_HEAD: Final = """\
# Settings

Every setting of treadle.yaml, the engine's file, with its default and bounds. A file has only the settings that it
changes. `treadle policy check FILE` checks one, `treadle policy show --defaults` prints one with all defaults;
[conf/treadle.yaml](../../conf/treadle.yaml) has the settings that an administrator sets first.

The ResourceManager's own settings are `yarn.scheduler.treadle.*` ([Settings in yarn-site.xml](../shim-settings.md)).

```yaml
# treadle.yaml
policy:
  share: {kind: hdrf, weights: guaranteed}
  order: {kind: fair}
limits: {proposals_max: 2048}
```

"""


POLICY: Final = """\
## `policy`

How containers are placed: five parts, each of a kind with parameters of its own ([Policies](../policy-parts.md)).
"""

ENGINES: Final = """\
## `engines`

Several engines on one cluster, each an entry with a name that you choose ([Several engines](../several-engines.md)).
An entry may have sections of this page for that engine alone. Its other keys:

"""


def settings_page() -> str:
    """Return the page in Markdown."""
    register_parts()
    return SETTINGS_HEAD + "\n".join([*_policy(), *_sections(), _engines(), _seed()])


def _policy() -> Iterator[str]:
    yield POLICY
    for part, question in PART_KINDS.items():
        yield f"### `policy.{part}`\n\n{question}\n"
        kinds = PARTS.kinds(part)
        names = sorted(kinds, key=lambda name, part=part: (name != DEFAULTS[part], name))  # type: ignore[misc]
        yield table(("kind", "meaning"), ((_named(part, name), kinds[name].summary) for name in names))
        for name in names:
            if kinds[name].parameters.keys():
                yield f"Parameters of {part} {code(name)}:\n\n{_fields(kinds[name].parameters)}"
    yield f"### `policy.{IGNORE_PRIORITY}`\n"
    yield table(HEADING, [(code(IGNORE_PRIORITY), code("false"), "true or false", IGNORES_PRIORITY)])


def _named(part: str, name: str) -> str:
    return f"{code(name)} (default)" if name == DEFAULTS[part] else code(name)


def _sections() -> Iterator[str]:
    for name, model in SECTIONS.items():
        yield f"## {code(name)}\n\n{(model.__doc__ or '').partition(chr(10))[0]}\n\n{_fields(model)}"


def _engines() -> str:
    entry = {key: field for key, field in Entry.keys().items() if key not in {"select", "retry"}}
    rows = [*_rows(Select.keys(), "select."), *_rows(entry), *_rows(Retry.keys(), "retry.")]
    return ENGINES + table(HEADING, rows)


def _seed() -> str:
    row = (
        "`seed`",
        "`0`",
        "whole number",
        "The seed of all random draws: equal seeds and events give equal proposals.",
    )
    return f"## `seed`\n\n{table(HEADING, [row])}"


def _fields(model: type[Parameters]) -> str:
    return table(HEADING, _rows(model.keys()))


def _rows(fields: dict[str, FieldInfo], prefix: str = "") -> Iterator[tuple[str, ...]]:
    for name, field in fields.items():
        yield code(prefix + name), _default(field), _values(field), field.description or ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    default = field.get_default(call_default_factory=True)
    plain = list(default) if isinstance(default, tuple) else default
    return code(yaml.safe_dump(plain, default_flow_style=True).removesuffix("\n").removesuffix("\n..."))


def _values(field: FieldInfo) -> str:
    bounds = [bound for bound in map(_bound, field.metadata) if bound]
    return ", ".join([_kind(field.annotation), " and ".join(bounds)] if bounds else [_kind(field.annotation)])


def _kind(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(code(str(value)) for value in get_args(annotation))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(one) for one in get_args(annotation))
    plain = {bool: "`true`, `false`", int: "whole number", float: "number", str: "text", dict: "mapping", tuple: "list"}
    return plain[origin or annotation]


def _bound(metadata: object) -> str:
    for kind, key, words in ((Ge, "ge", "at least"), (Gt, "gt", "above"), (Le, "le", "at most"), (Lt, "lt", "below")):
        if isinstance(metadata, kind):
            return f"{words} {getattr(metadata, key):,}"
    if isinstance(metadata, MaxLen):
        return f"at most {metadata.max_length:,}"
    pattern = getattr(metadata, "pattern", None)
    return f"`{pattern}`" if pattern else ""


NOTE: Final = "<!-- printed by python -m treadle_lab.docs.reference docs/reference: change the code, not this page -->"

PAGES: Final[dict[str, Callable[[], str]]] = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "reasons.md": reasons_page,
}


def written(page: Callable[[], str]) -> str:
    """Return a page as its file has it: with a note of where it comes from."""
    return f"{NOTE}\n\n{page()}"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(written(page), "utf-8")
