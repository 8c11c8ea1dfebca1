"""What the supervisor tells its children, on their standard input: one assignment, then orders to change.

House rules. Frames of 4 bytes of little-endian length and a msgpack value. They hold secrets, so they go nowhere else: not into arguments,
not into the environment. A child answers an order on its standard output: ``obeyed N`` or ``refused N``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

import msgspec

from proxy.config import Config
from proxy.switch import ON, Switch

_PREFIX = 4


class Assignment(msgspec.Struct, frozen=True):
    """What a child is, from its first moment. ``descriptor``: of its listening socket, for a traffic process."""

    config: Config
    role: str
    incarnation: str
    switch: Switch = ON
    descriptor: int | None = None


class Order(msgspec.Struct, frozen=True):
    """Work by another configuration, or with another position of the kill switch, from now on."""

    number: int
    config: Config
    switch: Switch


T = TypeVar("T", Assignment, Order)


def encode(value: Assignment | Order) -> bytes:
    """One frame."""
    payload = msgspec.msgpack.encode(value)
    return len(payload).to_bytes(_PREFIX, "little") + payload


def read_assignment(descriptor: int) -> Assignment:
    """Wait for the assignment, and take not a byte more. Raises EOFError when the supervisor is gone."""
    size = int.from_bytes(_exactly(descriptor, _PREFIX), "little")
    return msgspec.msgpack.decode(_exactly(descriptor, size), type=Assignment)


def _exactly(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.read(descriptor, size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


class Orders(asyncio.Protocol):
    """The pipe after the assignment: every order goes to ``obey``."""

    def __init__(self, obey: Callable[[Order], None]) -> None:
        self._obey = obey
        self._buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        """Cut into frames."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _PREFIX:
            end = _PREFIX + int.from_bytes(buffer[:_PREFIX], "little")
            if len(buffer) < end:
                return
            order = msgspec.msgpack.decode(bytes(buffer[_PREFIX:end]), type=Order)
            del buffer[:end]
            self._obey(order)
