"""Which Avro schemas are read: those that history events have, made anew of what is understood of them.

A schema comes with each file, and the file may be anybody's. Of three things a schema must not have any: a type within
itself, which a reader follows until its stack ends; values that take no space, of which some bytes announce as many
as one likes; and kinds of types, or properties of theirs, that a reader may know and this page does not.
"""

from __future__ import annotations

import re
from typing import Any, Final

from treadle.history.importers.outcome import BrokenHistoryError, items, mapping

DEPTH_MAX: Final = 32
"""Of types within types; Hadoop's are 12 deep."""
TYPES_MAX: Final = 2_000
"""Types that a schema mentions; Hadoop's mentions some 400."""

PRIMITIVES: Final = frozenset({"string", "int", "long", "boolean", "float", "double", "bytes"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}(?:\.[A-Za-z_][A-Za-z0-9_]{0,199}){0,20}")


def read_schema(schema: object) -> Any:
    """Return a schema that says the same and holds nothing else.

    Raises:
        BrokenHistoryError: it has what the events of histories do not have.
    """
    made = _Schema().type(schema, "", 0)
    if not isinstance(made, dict) or made["type"] != "record":
        raise _wrong("an event that is no record")
    return made


class _Schema:
    def __init__(self) -> None:
        self._known: set[str] = set()
        """Full names of types that were described up to their ends: none of them is within itself."""
        self._types = 0

    def type(self, schema: object, namespace: str, depth: int) -> Any:
        self._types += 1
        if depth > DEPTH_MAX or self._types > TYPES_MAX:
            raise _wrong(f"types within types more than {DEPTH_MAX} deep, or more than {TYPES_MAX} of them")
        if isinstance(schema, list):
            # a union takes a byte to say which of its members it is
            return [member if member == "null" else self.type(member, namespace, depth + 1) for member in schema]
        if isinstance(schema, str):
            return self._named(schema, namespace)
        fields = mapping(schema)
        kind = fields.get("type")
        if kind == "record":
            return self._record(fields, namespace, depth)
        if kind == "enum":
            symbols = [_name(symbol) for symbol in items(fields.get("symbols"))]
            name = self._full_name(fields, namespace)
            self._known.add(name)
            return {"type": "enum", "name": name, "symbols": symbols}
        if kind == "array":
            return {"type": "array", "items": self.type(fields.get("items"), namespace, depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.type(fields.get("values"), namespace, depth + 1)}
        if isinstance(kind, str) and kind not in PRIMITIVES:
            raise _wrong(f"a type {kind[:40]!r}")
        return self.type(kind, namespace, depth + 1)

    def _record(self, fields: Any, namespace: str, depth: int) -> Any:
        name = self._full_name(fields, namespace)
        inner = name.rpartition(".")[0]
        members = [
            {"name": _name(mapping(field).get("name")), "type": self.type(mapping(field).get("type"), inner, depth + 1)}
            for field in items(fields.get("fields"))
        ]
        if not members:
            raise _wrong("values that take no space")
        self._known.add(name)
        return {"type": "record", "name": name, "fields": members}

    def _named(self, name: str, namespace: str) -> str:
        if name == "null":
            raise _wrong("values that take no space")
        if name in PRIMITIVES:
            return name
        full = _name(name) if "." in name or not namespace else f"{namespace}.{_name(name)}"
        if full not in self._known:
            raise _wrong(f"a type {name[:40]!r} that is within itself, or not described before it is used")
        return full

    def _full_name(self, fields: Any, namespace: str) -> str:
        name = _name(fields.get("name"))
        space = fields.get("namespace", namespace)
        full = name if "." in name or not space else f"{_name(space)}.{name}"
        if full in self._known:
            raise _wrong(f"two types called {name[:40]!r}")
        return full


def _name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(f"something called {str(name)[:40]!r}")
    return name


def _wrong(what: str) -> BrokenHistoryError:
    return BrokenHistoryError(f"its schema is not that of events: it has {what}")
