"""The report as one HTML file: nothing beside it, no script, nothing asked of any network.

House rules. Made from the report's dict (``parhelion.report/1``) and examples; every number is one of them, with its place in the JSON beside it. Texts of models, clients and engines
are made visible, escaped, and can do nothing: the file's own policy lets no script and no address in.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from proxy.compare.comparison import Flip, TokenRef
from proxy.ledger import exposition
from proxy.ledger.examples import LOOKED_AT, Example
from proxy.ledger.opening import not_compared, opening
from proxy.ledger.pages.assets import assets
from proxy.ledger.pages.frame import environment
from proxy.ledger.pages.token_text import raw, token
from proxy.ledger.pages.visible import NOTHING
from proxy.ledger.parts import judged, measured, replies, stacks
from proxy.ledger.parts.part import At, data
from proxy.ledger.verdict_lines import verdict_lines

_STYLES = ("parhelion.css", "tokens.css", "charts.css", "report.css")


def render_html(
    report: Mapping[str, Any],
    examples: Sequence[Example] = (),
    *,
    content: str | None = None,
    repeat: str | None = None,
) -> str:
    """Return the file.

    ``content``: what ``records.content`` keeps, so that it can be said what would show more; None: not known. ``repeat``: the command that makes this report again; None: that of the
    report, as far as it is one.
    """
    at = At(report)
    style = "\n".join(assets()[name].content.decode() for name in _STYLES)
    values = {
        "report": report,
        "style": Markup(style),  # noqa: S704 - files of this package
        "policy": _policy(style),
        "version": exposition.build(),
        "opening": opening(report),
        "silent": [line for one in report["shadows"] if (line := not_compared(one, report.get("requests")))],
        "candidates": [_candidate(at, one, examples) for one in at["shadows"] if one["role"].value != "control"],
        "controls": [one["name"] for one in report["shadows"] if one["role"] == "control"],
        "everything": measured.everything(report),
        "counted": stacks.counted(at),
        "content": content,
        "looked_at": LOOKED_AT,
        "command": repeat or _repeat(report["command"]),
    }
    return environment().get_template("report.html").render(values)


def _repeat(command: str) -> str:
    """The command line again; what a running proxy has made comes from its records."""
    made = command if command.split(" ", maxsplit=1)[0] in ("report", "replay") else "report"
    return f"parhelion {made} --html FILE"


def write_html(file: Path, text: str) -> None:
    """Write the file at once or not at all, readable by its owner alone: it may hold what users wrote. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:100]}.")  # made with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as made:
            made.write(text)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _policy(style: str) -> str:
    mark = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{mark}'; img-src data:; base-uri 'none'; form-action 'none'"


def _candidate(report: At, shadow: At, examples: Sequence[Example]) -> dict[str, Any]:
    value = shadow.value
    verdict = value.get("verdict")
    control = next((one for one in report["shadows"] if one["role"].value == "control"), None)
    found: list[Any] = [] if verdict is None else [judged.evidence(shadow)]
    found += [
        measured.floor_and_excess(shadow),
        measured.survival(shadow),
        measured.places(shadow),
        measured.values(shadow, control),
        stacks.findings(shadow),
        replies.ties(shadow, report),
        replies.outputs(shadow),
        replies.lengths(shadow),
        replies.latency(shadow),
        stacks.footprints(report, shadow),
    ]
    said = (
        verdict_lines({"command": report.value.get("command", ""), "shadows": [value]}) if verdict is not None else []
    )
    return {
        "name": value["name"],
        "role": value["role"],
        "state": "role unknown" if verdict is None else verdict["state"],
        "tone": "warn" if verdict is None else judged.TONES.get(verdict["state"], "warn"),
        "said": [line.partition(": ")[2] for line in said],
        "to_do": None if verdict is None else judged.to_do(value),
        "summary": _summary(shadow),
        "parts": found,
        "examples": [_shown(one) for one in examples if one.shadow == value["name"]],
    }


def _summary(shadow: At) -> list[Markup]:
    """The row of a candidate where there are several."""
    verdict = shadow["verdict"]
    free = shadow["modes"]["free"]["headline"]["genuine_divergences_per_1000_tokens"]
    forced = shadow["modes"]["forced"]["headline"]["genuine_flips_per_1000_positions"]
    return [data(verdict["conversations"]), data(verdict["excess"]), data(free["excess"]), data(forced["excess"])]


def _shown(one: Example) -> dict[str, Any]:
    flip = one.flip
    return {
        "one": one,
        "class": flip.kind.value,
        "tokens": [_token("primary", flip.primary), _token(one.shadow, flip.shadow)],
        "index": flip.index,
        "gap": flip.gap,
        "shadow_gap": flip.shadow_gap,
        "pick": _pick(flip),
    }


def _token(arm: str, one: TokenRef) -> dict[str, Any]:
    shown = token({"id": one.id, "text": one.text})
    data_ = getattr(one, "data", None)
    return {"arm": arm, "id": one.id, "logprob": one.logprob, "shown": raw(data_) if data_ else shown}


def _pick(flip: Flip) -> str:
    return NOTHING if flip.primary_pick is None else f"{flip.primary_pick} / {flip.shadow_pick or NOTHING}"
