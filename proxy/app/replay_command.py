"""``parhelion replay``: recorded or foreign traffic asked again, compared, reported.

House rules. The command's flags and exit status; what is done stands in ``proxy.app.replay_run``. Nothing is imported before it is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

Many = Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)]
Switch = Annotated[bool, Parameter(negative="")]


def replay(
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    primary: str | None = None,
    shadow: Many = None,
    control: str | None = None,
    recorded: Literal["primary"] | None = None,
    replies: Path | None = None,
    mode: Literal["free", "forced"] | None = None,
    model: str | None = None,
    concurrency: int = 8,
    rate: float | None = None,
    order: Literal["file", "shuffled", "time"] = "file",
    seed: int = 0,
    pace: float | None = None,
    sample: float = 1.0,
    since: str | None = None,
    limit: int | None = None,
    repeats: int | None = None,
    mmd: Switch = False,
    out: Path | None = None,
    fresh: Switch = False,
    fail_fast_on_verdict: Switch = False,
    json: Annotated[Path | None, Parameter(name="--json")] = None,
    html: Annotated[Path | None, Parameter(name="--html")] = None,
) -> int:
    """Ask recorded requests again and compare as on live traffic: the same report, the same verdict, the same exit status.

    FILE holds one JSON object a line, plain or packed (gzip, zstd): an export of ours (`records.content: text`), OpenAI's batch input,
    request bodies, or {"request": {...}, "response": {...}}; `-` reads standard input. All of it is checked before any engine is asked.

    A replay that was interrupted goes on where it was when the same command is run again. Ctrl-C ends what is under way and prints the report; twice, it stops at once.

    Exit status 0 PASS, 1 FAIL, 3 KEEP WATCHING, as `parhelion report`; 2 for a mistake in the file or a flag, and where an engine does not answer (any more).

    Parameters
    ----------
    file
        What to replay.
    config
        Configuration file (YAML): engines, keys, `verdict`, `records.content`; its store and ports are not used.
    primary
        Base URL of the engine whose replies are the right ones.
    shadow
        [name=]URL of an engine to ask too; may be given several times.
    control
        URL of a second instance of the primary's own stack: the noise floor.
    recorded
        Take the replies in FILE for the primary's, and ask no primary. Read as `primary.engine` speaks, or as OpenAI does.
    replies
        The output of the OpenAI batch whose input FILE is, joined by custom_id.
    mode
        Compare in this mode only.
    model
        Ask for this model instead of the one in each request.
    concurrency
        Requests under way at once.
    rate
        Requests a second at most; `limits.requests_per_second` when left out.
    order
        As in the file, shuffled, or by the recorded time.
    seed
        Another seed is another order, and another sample.
    pace
        Keep the recorded gaps, so many times as fast (1.0: as they were); orders by time.
    sample
        Share of the requests to replay, 0 to 1.
    since
        Only requests recorded within this age: 30m, 24h, 7d.
    limit
        At most so many requests, the first in the order asked for.
    repeats
        Ask each request so many times, with another `seed` each where it has one (1; 5 with --mmd).
    mmd
        Ask the shadows for sampled requests, too, and test whether they draw as the primary does (maximum mean discrepancy within each prompt).
    out
        The store of this replay (SQLite); FILE.replay.db when left out.
    fresh
        Begin anew, and throw away what an earlier run of this replay has left.
    fail_fast_on_verdict
        End as soon as every candidate has a verdict.
    json
        Also write the report as JSON to this file.
    html
        Also write it as one HTML file, readable by you alone.
    """
    from proxy.app.flags import engine_flags
    from proxy.app.replay_run import Flags, run

    given = Flags(
        file=file,
        config=config,
        engines=engine_flags(primary, shadow, control),
        recorded=recorded is not None,
        replies=replies,
        mode=mode,
        model=model,
        concurrency=concurrency,
        rate=rate,
        order="time" if pace is not None else order,
        seed=seed,
        pace=pace,
        sample=sample,
        since=since,
        limit=limit,
        repeats=(5 if mmd else 1) if repeats is None else repeats,
        mmd=mmd,
        out=out,
        fresh=fresh,
        until_decided=fail_fast_on_verdict,
        json=json,
        html=html,
    )
    return run(given)
