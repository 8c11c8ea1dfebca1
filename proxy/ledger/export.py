"""Records as files, and back: JSON Lines always, Parquet where pyarrow is installed.

One record a line, oldest first, no head line. The fields are those of ``proxy.ledger.record.Record`` by their names, nested as there
(``comparison.choices[].primary_logprobs`` and so on: the README's table explains each), and before them two that are derived:
``outcome`` (``identical``, ``diverged``, ``censored``, ``scored``, ``incomparable``) and ``class`` (the gravest difference, "" without
one). Unknown is null. Where details are asked for, ``detail`` comes last. House rules. Fields are added, never renamed; a file appears under its name when it is whole, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from proxy.ledger.detail import Detail
from proxy.ledger.query import gravest
from proxy.ledger.record import Record

#: Looks up what is kept beside a record, by its id.
Details = Callable[[str], Detail | None]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_ROWS = 1000  # records in one Parquet row group


class ExportError(Exception):
    """A file cannot be written or read; the text names it and the remedy."""


def derived(record: Record) -> dict[str, str]:
    """Return what a line says before the record's own fields."""
    kind = gravest(record.comparison)
    return {"outcome": record.comparison.outcome, "class": "" if kind is None else kind.value}


def line(record: Record) -> bytes:
    """One record as a JSON object, without the line's end."""
    return _encoder.encode(derived(record))[:-1] + b"," + _encoder.encode(record)[1:]


def with_detail(record: Record, detail: Detail | None) -> bytes:
    """The same with ``detail`` as its last field, null without one; bytes are base64."""
    return line(record)[:-1] + b',"detail":' + _encoder.encode(detail) + b"}"


def export_jsonl(records: Iterable[Record], path: Path, details: Details | None = None) -> int:
    """Write records to ``path``, with what ``details`` gives for each; return how many. Raises ExportError, and whatever reading the records raises."""

    def write(file: BinaryIO) -> int:
        n = 0
        for record in records:
            file.write((line(record) if details is None else with_detail(record, details(record.id))) + b"\n")
            n += 1
        return n

    return _atomically(path, write)


def export_parquet(records: Iterable[Record], path: Path, details: Details | None = None) -> int:
    """Write records to ``path`` as Parquet, nested as in JSON; return how many. Raises ExportError (pyarrow missing among others)."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ExportError(f"{path}: Parquet needs pyarrow: `pip install pyarrow`, or export to a .jsonl file") from None
    from proxy.ledger.arrow import row, schema

    def write(file: BinaryIO) -> int:
        n = 0
        source = iter(records)
        columns = schema(detail=details is not None)
        with parquet.ParquetWriter(file, columns, compression="zstd") as writer:
            while batch := [row(record, details) for record in islice(source, _ROWS)]:
                writer.write_table(pa.Table.from_pylist(batch, schema=columns))
                n += len(batch)
        return n

    return _atomically(path, write)


def export(records: Iterable[Record], path: Path) -> int:
    """Write records in the format that the name ends in: ``.parquet``, else JSON Lines. Raises ExportError."""
    return export_parquet(records, path) if path.suffix == ".parquet" else export_jsonl(records, path)


def load_export(path: Path) -> Iterator[Record]:
    """Read the records of a JSON Lines export. Raises ExportError naming the line that is none."""
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    yield _record(text, path, number)
    except OSError as error:
        raise ExportError(f"{path}: cannot be read: {error.strerror}") from None


def _record(text: bytes, path: Path, number: int) -> Record:
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise ExportError(f"{path}:{number}: not a record of a Parhelion export: {_plain(error)}") from None


def _plain(error: Exception) -> str:
    # The decoder's text names a type and a path; it quotes no value of the line but an enum's, which is cut short.
    return str(error)[:200]


def _atomically(path: Path, write: Callable[[BinaryIO], int]) -> int:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.unlink(missing_ok=True)  # whoever made it would own, or lead elsewhere, what we write
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            n = write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return n


def fields(record: Record) -> dict[str, Any]:
    """One record as plain JSON values, the same as its line."""
    value: dict[str, Any] = msgspec.json.decode(line(record))
    return value
