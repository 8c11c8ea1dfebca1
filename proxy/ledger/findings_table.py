"""The table of findings in ``proxy/compare/README.md``, made of the layers and their advice. ``python -m proxy.ledger.findings_table`` renews it.

House rules. The page between the two marks is made here and nowhere else; a test holds them together.
"""

from __future__ import annotations

from pathlib import Path

from proxy.compare.layers import LAYER_OF, ORDER
from proxy.ledger.remedies import ADVICE

PAGE = Path(__file__).parents[1] / "compare" / "README.md"
_BEGIN, _END = "<!-- findings: written by python -m proxy.ledger.findings_table -->", "<!-- /findings -->"


def table() -> str:
    """Return every finding in the order of the layers."""
    rows = ["| layer | finding | what is seen | severity | remedy |", "| --- | --- | --- | --- | --- |"]
    for name in ORDER:
        one = ADVICE[name]
        rows.append(f"| {LAYER_OF[name]} | `{name}` | {one.seen} | {one.severity} | {one.remedy} |")
    return "\n".join(rows)


def renewed(page: str) -> str:
    """Return the page with its table as it is now. Raises ValueError when the marks are missing."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{PAGE}: the marks {_BEGIN} and {_END} are missing")
    return f"{before}{begin}\n\n{table()}\n\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
