"""Rows 11 and 12, both at once: a shadow that hangs for long, and faults of every kind on every side. ``PARHELION_SOAK_SECONDS`` says for how long."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.isolation.mishaps import Mixed, mixed
from tests.isolation.soak import Hung, hang
from tests.isolation.stage import MIB, arms, sick
from tests.isolation.trial import Figure
from tests.running import parhelion

LIMITS = {"in_flight": 16, "capture_bytes": 256 << 10, "queue_bytes": 16 << 20}
#: What each process may hold of other people's bytes under those limits (the judge's queue, and what is examined at once with what it inflates to).
BUDGET = {
    "supervisor": 0,
    "traffic": LIMITS["queue_bytes"],
    "judge": LIMITS["queue_bytes"] + LIMITS["in_flight"] * 4 * LIMITS["capture_bytes"],
}
ALLOWANCE = 64 * MIB
#: What a process may hold at rest beyond the most it held at rest in the first half of the rounds. A judge is killed in most rounds: what its latest life
#: holds goes by how full its queue was, of which the allocator keeps some. That a judge does not grow while it lives is row 11.
SLACK = {
    "supervisor": lambda start: start // 50,
    "traffic": lambda start: start // 50,
    "judge": lambda _: LIMITS["queue_bytes"],
}
LENGTHS = [
    pytest.param(120.0, marks=pytest.mark.slow, id="short"),
    pytest.param(1800.0, marks=[pytest.mark.soak, pytest.mark.timeout(2700)], id="long"),
]


@pytest.fixture(scope="module")
def seconds(request: pytest.FixtureRequest) -> float:
    return float(os.environ.get("PARHELION_SOAK_SECONDS", request.param))


@pytest.fixture(scope="module")
def both(
    seconds: float, disk: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Future[Hung], Future[Mixed]]]:
    """Both runs, begun together."""
    folder = tmp_path_factory.mktemp("soak")
    order, sick_disk = folder / "order", folder / "disk"
    order.write_text("", encoding="ascii")
    for name in ("hung", "disk"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        first, second = (
            (stack.enter_context(sick(pace=0.001)), stack.enter_context(sick(noise=1.5))) for _ in range(2)
        )
        shadow = arms(first[1].url, deadline=20.0)
        hung = stack.enter_context(parhelion(folder / "hung", first[0].url, shadow, limits=LIMITS))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(disk))
            patch.setenv("SICK_DISK_PATH", str(sick_disk))
            patch.setenv("SICK_DISK_ORDER", str(order))
            ill = stack.enter_context(parhelion(sick_disk, second[0].url, arms(second[1].url), limits=LIMITS))
        stack.callback(order.write_text, "")
        for proxy in (hung, ill):
            proxy.wait_known(["primary", "cand"], 30)
        with ThreadPoolExecutor(2) as pool:
            long = seconds > 600
            yield (
                pool.submit(hang, hung, *first, seconds, 40.0),
                pool.submit(
                    mixed, ill, *second, order,
                    seconds=seconds, rounds=6 if long else 4, longest_stop=60.0 if long else 3.0, per_second=40.0,
                ),
            )  # fmt: skip


@pytest.mark.parametrize("seconds", LENGTHS, indirect=True)
def test_memory_stays_flat_while_a_shadow_hangs(
    both: tuple[Future[Hung], Future[Mixed]], seconds: float, figure: Figure
) -> None:
    found = both[0].result(seconds + 300)
    for role, held in found.held.items():
        start = held.rows[0][1]
        figure(
            "row 11",
            f"{seconds:.0f} s, {role}: RSS {start / MIB:.1f} MiB at the start, {held.peak / MIB:.1f} at most "
            f"(bound {(start + BUDGET[role] + ALLOWANCE) / MIB:.0f}), {held.risen() / MIB:+.2f} MiB over the last third",
        )
        assert held.peak <= start + BUDGET[role] + ALLOWANCE
        assert held.risen() <= 1 * MIB
    figure("row 11", f"{found.tally.failed} of {found.tally.asked} failed, {found.tally.in_words()}; {found.ended}")
    assert (found.tally.failed, found.tally.wrong) == (0, [])


@pytest.mark.parametrize("seconds", LENGTHS, indirect=True)
def test_everything_returns_to_the_start_after_faults_of_every_kind(
    both: tuple[Future[Hung], Future[Mixed]], seconds: float, figure: Figure
) -> None:
    found = both[1].result(seconds + 300)
    for role, held in found.rests.items():
        rows = [f"{size / MIB:.1f} MiB {files} fds {threads} threads" for _, size, files, threads in held.rows]
        figure("row 12", f"{seconds:.0f} s, {role} at rest after each round: {', '.join(rows)}")
    figure(
        "row 12",
        f"{found.mishaps} mishaps; {found.good.failed} of {found.good.asked} failed, {found.good.in_words()}; {found.ended}",
    )
    assert (found.good.failed, found.good.wrong) == (0, [])
    assert sum(found.ended.values()) == found.received
    for role, held in found.rests.items():
        # The start is what a process holds once it has met every kind of work, which a judge just restarted has not.
        start, (_, memory, files, _) = held.rows[: len(held.rows) // 2], held.rows[-1]
        assert files <= max(row[2] for row in start)
        most = max(row[1] for row in start)
        assert memory <= most + SLACK[role](most)
