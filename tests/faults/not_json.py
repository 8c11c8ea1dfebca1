"""Answers 200 with a page where JSON was expected."""

from __future__ import annotations

from tests.wire.engine import Connection, reply


async def behave(connection: Connection) -> None:
    while True:
        await connection.request()
        await connection.send(reply(b"<html>maintenance</html>", fields=b"Content-Type: text/html\r\n"))
