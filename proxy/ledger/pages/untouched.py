"""First question of the Overview: is the primary untouched."""

from __future__ import annotations

from typing import Any

from proxy.ledger.pages.quantiles import Spread
from proxy.ledger.pages.reading import Seen
from proxy.ledger.pages.visible import count, seconds, share

#: What the design allows Parhelion to add to a request, at the median and for 99 of 100 (seconds).
_ALLOWED = (1e-3, 5e-3)
_UNREACHABLE = 1e-3  # a share of the answers that is worth a look


def view(seen: Seen) -> dict[str, Any]:
    """Return the answer in words and the numbers behind it."""
    answered = sum(seen.codes.values())
    errors = sum(n for code, n in seen.codes.items() if code >= 500)
    unreachable, overhead = seen.single["unreachable"], seen.overhead
    slow = _over(overhead, _ALLOWED)
    cut_off = answered > 0 and unreachable / answered > _UNREACHABLE
    return {
        "tone": "" if not answered else "warn" if slow or cut_off else "good",
        "word": "Nothing to say yet" if not answered else "Look here" if slow or cut_off else "Yes",
        "said": _said(answered, errors, unreachable, overhead, slow=slow),
        "answered": answered,
        "classes": [
            {"name": f"{kind}xx", "n": sum(n for code, n in seen.codes.items() if code // 100 == kind)}
            for kind in (2, 3, 4, 5)
        ],
        "errors": errors,
        "unreachable": unreachable,
        "disconnects": seen.single["disconnects"],
        "open_streams": seen.single["open_streams"],
        "overhead": overhead,
        "duration": seen.duration,
        "first_token": [] if seen.judge is None else _arms(seen, seen.judge.first_token),
    }


def _arms(seen: Seen, found: dict[str, Spread]) -> list[dict[str, Any]]:
    """The primary first, then the shadows in their order."""
    names = ["primary", *(one.name for one in seen.config.shadows)]
    return [{"arm": name, "spread": found[name]} for name in names if name in found and found[name].n]


def _over(overhead: Spread, allowed: tuple[float, float]) -> bool:
    if not overhead.n:
        return False
    return any(known is None or known > most for known, most in zip((overhead.p50, overhead.p99), allowed, strict=True))


def _said(answered: int, errors: int, unreachable: int, overhead: Spread, *, slow: bool) -> str:
    if not answered:
        return "No request has been answered yet."
    said = [f"{count(answered)} requests answered, byte for byte as the primary sent them."]
    if overhead.p50 is not None and overhead.p99 is not None:
        added = f"Parhelion adds {seconds(overhead.p50)} at the median and {seconds(overhead.p99)} for 99 of 100 ({count(overhead.n)} requests)."
        said.append(f"{added} That is more than it should." if slow else added)
    if errors:
        said.append(f"{count(errors)} ended in a server error ({share(errors / answered)}).")
    said.append(
        f"The primary could not be reached {count(unreachable)} times."
        if unreachable
        else "The primary could always be reached."
    )
    return " ".join(said)
