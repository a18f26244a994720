"""Passes a named tuple of arrays to kernels as one pointer.

numba passes a named tuple to a function field by field, and each array as seven or more numbers; each access to one
field copies them all. With the two dozen arrays of a `View` the compiler would spend most of its time on that. A class
marked with `tables` is unpacked once, where Python calls a kernel, and inner functions get its address. Its fields are
constant while the kernel runs; the elements of its arrays may change.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import typeof
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    types,
    unbox,
)

C = TypeVar("C", bound=type[Any])


class Tables(types.Type):
    """The numba type of such a tuple: names and types of its fields."""

    def __init__(self, title: str, names: tuple[str, ...], fields: tuple[Any, ...]) -> None:
        """Name the type after its class and fields; the name is short because it is part of each function's name."""
        digest = hashlib.sha256(repr((names, [field.key for field in fields])).encode()).hexdigest()
        self.names = names
        self.fields = fields
        super().__init__(f"{title}{digest[:12]}")


def tables(cls: C) -> C:
    """Mark a named tuple for passing by address."""

    @typeof_impl.register(cls)
    def type_of(value: Any, _: Any) -> Tables:
        return Tables(cls.__name__, value._fields, tuple(typeof(field) for field in value))

    return cls


@register_model(Tables)
class _TablesModel(models.PrimitiveModel):
    """The address of the fields, in order."""

    def __init__(self, manager: Any, of: Tables) -> None:
        fields = ir.LiteralStructType([manager.lookup(field).get_data_type() for field in of.fields])
        super().__init__(manager, of, fields.as_pointer())


@infer_getattr
class _TablesAttribute(AttributeTemplate):
    key = Tables

    def generic_resolve(self, of: Tables, name: str) -> Any:
        return of.fields[of.names.index(name)] if name in of.names else None


@lower_getattr_generic(Tables)
def _get_field(context: Any, builder: Any, of: Tables, value: Any, name: str) -> Any:
    """Load a field; kernels never change it, so LLVM need not load it again."""
    at = of.names.index(name)
    field = of.fields[at]
    known = {id(each) for each in builder.block.instructions}
    place = cgutils.gep_inbounds(builder, value, 0, at)
    loaded = context.data_model_manager[field].load_from_data_pointer(builder, place)
    for each in builder.block.instructions:
        if id(each) not in known and isinstance(each, ir.instructions.LoadInstr):
            each.set_metadata("invariant.load", builder.module.add_metadata([]))
    return impl_ret_borrowed(context, builder, field, loaded)


@unbox(Tables)
def _unpack(of: Tables, value: Any, c: Any) -> NativeValue:
    """Unpack a tuple into the stack frame of the Python entry point; it outlives the kernel (never inlined)."""
    fields = cgutils.alloca_once(c.builder, c.context.get_value_type(of).pointee)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    for at, field in enumerate(of.fields):
        native = c.unbox(field, c.pyapi.tuple_getitem(value, at))
        with c.builder.if_then(native.is_error, likely=False):
            c.builder.store(cgutils.true_bit, failed)
        model = c.context.data_model_manager[field]
        c.builder.store(model.as_data(c.builder, native.value), cgutils.gep_inbounds(c.builder, fields, 0, at))
    return NativeValue(fields, is_error=c.builder.load(failed))
