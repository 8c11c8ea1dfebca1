"""The table of metrics in ``grafana/README.md``: ``python -m proxy.ledger.reference`` writes it anew, a test holds it to the declarations."""

from __future__ import annotations

from pathlib import Path

from proxy.ledger.metrics import METRICS

BEGIN, END = "<!-- metrics: generated -->\n", "<!-- end -->\n"
PLACE = Path(__file__).resolve().parents[2] / "grafana" / "README.md"


def table() -> str:
    """The table in Markdown, one metric a line."""
    lines = ["| metric | type | labels | what it says | why it exists |", "| --- | --- | --- | --- | --- |"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} | {metric.why} |")
    return "\n".join(line.replace("\n", " ") for line in lines) + "\n"


def renewed(text: str) -> str:
    """The page with its table as the declarations say. Raises ValueError when the page has no place for it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PLACE.name}: the marks around the table are missing")
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    PLACE.write_text(renewed(PLACE.read_text(encoding="utf-8")), encoding="utf-8")
