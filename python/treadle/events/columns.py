"""What a column of an event is: an annotation of its field says the type on the wire and the values allowed.

>>> State = Annotated[U8, code(NodeState)]

`treadle.wire.schema` reads the annotations: decoder, encoder, bounds and the tables of docs/wire-format.md follow from
them. Types on the wire are ``u8``, ``i32``, ``i64``, ``name`` (an ``i32`` into the texts sent since the last snapshot)
and ``R*i64`` (one ``i64`` column for each of the cluster's R resource types).
"""

from __future__ import annotations

from dataclasses import fields
from enum import IntEnum, IntFlag
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

# not `numpy.typing.NDArray`: from numpy 2.5 on it is an alias whose type of elements cannot be read
U8 = np.ndarray[Any, np.dtype[np.uint8]]
I32 = np.ndarray[Any, np.dtype[np.int32]]
I64 = np.ndarray[Any, np.dtype[np.int64]]
F64 = np.ndarray[Any, np.dtype[np.float64]]

INDEX_MAX: Final = 1 << 22
"""Indices of nodes, queues, applications, request keys and texts are below this; they begin at 0 with each snapshot.

The one bound of wire and model: a frame beyond it is refused before anything is made of it, and the model has room for
whatever is below.
"""

KEYS_AHEAD: Final = 128
"""Number of the highest request keys, reserved for stages without asks so far. They outlive a snapshot."""

KEYS_RESERVED: Final = 1024
"""How many of the highest request keys are never on the wire: those for stages ahead, and below them those under which
an engine keeps hints for tasks that run while nothing of their kind is asked for any more.
"""

NAMES: Final = -1
"""In place of an upper bound: the index of the last text sent since the last snapshot."""


class Column(NamedTuple):
    """How a column is on the wire. A bound that is None allows every value of the type."""

    type: str
    low: int | None = None
    high: int | None = None
    is_index: bool = False
    """Does the shim give out these numbers? Then there may be too many of them between two snapshots."""
    name: str = ""
    """The column's name where it is not that of the field (without the ending ``_name`` of a column of names)."""
    remark: str = ""
    """What docs/wire-format.md says of the values, in brackets."""


class Section(NamedTuple):
    """A kind of section: the number and the name of an event on the wire."""

    kind: int
    name: str
    whole: bool = False
    """Do its rows replace all earlier ones, so that it is never split over two frames?"""


def index(absent: str = "") -> Column:
    """Return the column of an index that the shim gives out; ``absent`` says what -1 means, if it may be."""
    return Column("i32", -1 if absent else 0, INDEX_MAX - 1, True, remark=f"-1: {absent}" if absent else "")


def code(codes: type[IntEnum], shown: bool = True) -> Column:
    """Return the column of one of some codes."""
    remark = ", ".join(f"{each.value} {_words(each.name)}" for each in codes) if shown else ""
    return Column("u8", min(codes), max(codes), remark=remark)


def bits(flags: type[IntFlag]) -> Column:
    """Return the column of some bits."""
    remark = ", ".join(f"{each.value} {_words(str(each.name))}" for each in flags)
    return Column("u8", 0, sum(flags), remark=f"bits: {remark}")


def _words(name: str) -> str:
    return name.lower().replace("_", " ")


Index = Annotated[I32, index()]
"""Of a node, a queue or an application."""
KeyIndex = Annotated[I32, Column("i32", 0, INDEX_MAX - KEYS_RESERVED - 1, True)]
"""Of a request key, within its application."""
NameIndex = Annotated[I32, Column("name", 0, NAMES)]
Flag = Annotated[U8, Column("u8", 0, 1)]
Count = Annotated[I32, Column("i32", 0, 2**31 - 1)]
Number = Annotated[I32, Column("i32")]
Long = Annotated[I64, Column("i64")]
Amounts = Annotated[I64, Column("R*i64")]
"""Of resources: a row a thing, a column a resource type."""

E = TypeVar("E")


class Field(NamedTuple):
    """A field of an event that is an array."""

    name: str
    dtype: np.dtype[Any]
    column: Column | None
    """None: not on the wire."""


@cache
def array_fields(kind: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a kind of event that are arrays, in order."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in fields(kind):
        hint = hints[field.name]
        column = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Column)), None)
        plain = get_args(hint)[0] if column is not None else hint
        if get_origin(plain) is np.ndarray:
            found.append(Field(field.name, np.dtype(get_args(get_args(plain)[1])[0]), column))
    return tuple(found)


def filled(kind: type[E], rows: int, resources: int = 0, **columns: Any) -> E:
    """Return an event of ``rows`` rows; a column that is not given is 0 in all of them.

    Args:
        kind: an event of which every field is an array
        rows: how many
        resources: resource types, wanted only where no column of amounts is given
        columns: by name; an array or one value for all rows

    Raises:
        TypeError: there is no such column.
        ValueError: a column has another number of rows.
    """
    of: Any = kind
    fields_of = array_fields(of)
    here = (field for field in fields_of if field.name in columns)
    given = {field.name: np.asarray(columns.pop(field.name), field.dtype) for field in here}
    if columns:
        raise TypeError(f"{kind.__name__} has no column {', '.join(columns)}")
    width = next((value.shape[1] for value in given.values() if value.ndim == 2), resources)
    values: dict[str, np.ndarray[Any, Any]] = {}
    for field in fields_of:
        value = given.get(field.name)
        if value is None or value.ndim == 0:
            wide = field.column is not None and field.column.type == "R*i64"
            filling = np.zeros((rows, width) if wide else rows, field.dtype)
            if value is not None:
                filling[...] = value
            value = filling
        elif len(value) != rows:
            raise ValueError(f"the column {field.name} has {len(value)} rows instead of {rows}")
        values[field.name] = value
    return kind(**values)
