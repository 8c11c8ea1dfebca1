"""Records as Arrow rows: the schema of a Parquet export, read off the record's own types.

House rules. Columns are named and nested as in the JSON Lines export, so that one query serves both; but what has no fixed fields (a finding's evidence) is
JSON as text, for Arrow has no type for it. Imported only where pyarrow is installed.
"""

from __future__ import annotations

import types
import typing
from enum import Enum
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from proxy.compare.comparison import Comparison
from proxy.ledger.detail import Detail
from proxy.ledger.export import Details, derived
from proxy.ledger.record import Record

#: Fields of a comparison that have no fixed fields of their own.
_FREE = tuple(name for name, kind in typing.get_type_hints(Comparison).items() if typing.get_origin(kind) is dict)


@cache
def schema(*, detail: bool = False) -> pa.Schema:
    """Return the Arrow schema of one record a row, with its ``detail`` where that is asked for; every column may be null, for unknown is null."""
    first = [pa.field("outcome", pa.string()), pa.field("class", pa.string())]
    last = [pa.field("detail", _arrow(Detail))] if detail else []
    return pa.schema(first + list(_arrow(Record)) + last)


def row(record: Record, details: Details | None = None) -> dict[str, Any]:
    """Turn a record, with what ``details`` gives for it, into plain values that fit ``schema``."""
    plain: dict[str, Any] = msgspec.to_builtins(record)
    comparison = plain["comparison"]
    plain["comparison"] = comparison | {name: msgspec.json.encode(comparison[name]).decode() for name in _FREE}
    if details is not None:
        plain["detail"] = msgspec.to_builtins(details(record.id), builtin_types=(bytes,))
    return derived(record) | plain


def _arrow(kind: Any) -> pa.DataType:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        return _arrow(next(part for part in arguments if part is not types.NoneType))
    if origin is tuple:
        if Ellipsis in arguments or len(set(arguments)) == 1:
            return pa.list_(_arrow(arguments[0]))
        raise TypeError(f"no column type for {kind}")
    if origin is dict:
        return pa.string()
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = typing.get_type_hints(kind)
        return pa.struct([pa.field(name, _arrow(hints[name])) for name in kind.__struct_fields__])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return pa.string()
    return {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_(), bytes: pa.binary()}[kind]
