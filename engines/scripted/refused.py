"""A request that is not carried out, before any dialect's error shape is put around it."""

from __future__ import annotations


class Refused(Exception):
    """The reason for the client: names fields and numbers, never a prompt's text."""

    def __init__(self, message: str, *, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.status = status
