"""A file of HTML as a test reads it: its numbers by their place in the report, its elements, its text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


class Numbers(HTMLParser):
    """``found``: the numbers of a file by their place in the report; ``tags``: every element and its attributes; ``text``: all that is read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "data":
            of, value = dict(attrs)["data-of"], dict(attrs)["value"]
            assert of is not None
            assert value is not None
            assert self.found.setdefault(of, value) == value
            assert of.startswith("/")

    def handle_data(self, data: str) -> None:
        self.text += data


def at(report: Any, pointer: str) -> Any:
    """RFC 6901."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        report = report[int(name)] if isinstance(report, list) else report[name]
    return report


def same_as(report: Any, text: str) -> int:
    """Fail where a number of the HTML is not that of the report, digit for digit; return how many there are."""
    numbers = Numbers(text).found
    for pointer, value in numbers.items():
        stands = at(report, pointer)
        assert (stands if isinstance(stands, str) else repr(stands)) == value, pointer
    return len(numbers)
