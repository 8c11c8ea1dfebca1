"""Logs: one JSON object a line on standard error, and nothing in it that came from a client or an engine.

House rules. A log line is a fixed event name and fields that our own code made: names from the configuration, counts, reasons from
bounded sets. Never a header, a URL with a query, a body, or an exception text of the HTTP layer. On a terminal the same line is plain text.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, TextIO

import orjson

_FIELDS = "parhelion_fields"


class _Json(logging.Formatter):
    """One object a line: time, level, process, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "process": record.name,
            "event": record.getMessage(),
        }
        line |= getattr(record, _FIELDS, {})
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["at"] = _place(record.exc_info[2])
        return orjson.dumps(line, default=str).decode()


class _Plain(logging.Formatter):
    """For a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        fields = " ".join(f"{key}={value}" for key, value in getattr(record, _FIELDS, {}).items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        error = (
            f" {record.exc_info[0].__name__} at {_place(record.exc_info[2])}"
            if record.exc_info and record.exc_info[0]
            else ""
        )
        return f"{clock} {record.levelname.lower():7} {record.name}: {record.getMessage()} {fields}{error}".rstrip()


def _place(traceback: Any) -> str:
    """Where an exception was raised: file and line, never its text, which may quote what a peer sent."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}" if traceback is not None else ""


def set_up(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    """Send all logs of this process to ``stream``; libraries only from warnings up."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Plain() if stream.isatty() else _Json())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("parhelion").setLevel(level)
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # it quotes malformed headers, keys and all


def say(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    """Log one event with fields."""
    logger.log(level, event, extra={_FIELDS: fields})
