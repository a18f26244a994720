"""The page of settings: treadle.yaml, section by section."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le, Lt, MaxLen
from pydantic.fields import FieldInfo

from treadle.config.engines import Entry, Retry, Select
from treadle.config.parts import DEFAULTS, PARTS, QUESTIONS, Kind, Parameters
from treadle.config.settings import IGNORE_PRIORITY, IGNORES_PRIORITY, SECTIONS
from treadle.policy.catalogue import register_parts
from treadle.reference.markdown import code, table

HEADING: Final = ("key", "default", "values", "meaning")

HEAD: Final = """\
# Settings

Every setting of treadle.yaml, the engine's file, with its default and bounds. A file leaves out what it does not
change. `treadle policy check FILE` checks one, `treadle policy defaults` prints one with all defaults;
[conf/treadle.yaml](../../conf/treadle.yaml) is that.

The ResourceManager's own settings, `yarn.scheduler.treadle.*` in yarn-site.xml, have
[a page of their own](../shim-settings.md).

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

How containers are placed: five parts, each of a kind with parameters of its own ([the parts](../policy-parts.md)).
"""

ENGINES: Final = """\
## `engines`

Several engines on one cluster, each an entry by a name of yours ([several-engines.md](../several-engines.md)). Sections
of this page may stand in an entry; they are then that engine's. An entry's other keys:

"""


def settings_page() -> str:
    """Return the page in Markdown."""
    register_parts()
    return HEAD + "\n".join([*_policy(), *_sections(), _engines(), _seed()])


def _policy() -> Iterator[str]:
    yield POLICY
    for part, question in QUESTIONS.items():
        yield f"### `policy.{part}`\n\n{question}\n"
        kinds = PARTS.kinds(part)
        names = sorted(kinds, key=lambda name, part=part: (name != DEFAULTS[part], name))  # type: ignore[misc]
        yield table(("kind", "meaning"), ((_named(part, name), kinds[name].summary) for name in names))
        for name in names:
            if kinds[name].parameters.keys():
                yield _parameters(part, kinds[name])
    yield f"### `policy.{IGNORE_PRIORITY}`\n"
    yield table(HEADING, [(code(IGNORE_PRIORITY), code("false"), "true or false", IGNORES_PRIORITY)])


def _named(part: str, name: str) -> str:
    return f"{code(name)} (default)" if name == DEFAULTS[part] else code(name)


def _parameters(part: str, kind: Kind) -> str:
    return f"Parameters of {part} {code(kind.name)}:\n\n{_fields(kind.parameters)}"


def _sections() -> Iterator[str]:
    for name, model in SECTIONS.items():
        yield f"## {code(name)}\n\n{(model.__doc__ or '').partition(chr(10))[0]}\n\n{_fields(model)}"


def _engines() -> str:
    entry = {key: field for key, field in Entry.keys().items() if key not in {"select", "retry"}}
    rows = [
        *_rows(Select.keys(), "select."),
        *_rows(entry),
        *_rows(Retry.keys(), "retry."),
    ]
    return ENGINES + table(HEADING, rows)


def _seed() -> str:
    row = (
        "`seed`",
        "`0`",
        "whole number",
        "Of whatever is drawn at random: equal seeds and events give equal proposals.",
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
