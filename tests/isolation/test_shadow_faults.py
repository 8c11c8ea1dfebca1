"""Row 4: whatever ails the shadow, clients get exactly what they get without one, everything is bounded and counted, and a shadow that is well is used again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from proxy.demo.proxy_process import ProxyProcess
from tests.faults import FAULTS
from tests.isolation import load, watch
from tests.isolation.stage import MIB, Metrics, Sick, arms, settled, sick
from tests.running import parhelion, until

#: 2,000 requests through each proxy in blocks that alternate; every second request streams.
ROUNDS, BLOCK = 10, 200
IN_FLIGHT = 16
LIMITS = {"in_flight": IN_FLIGHT, "capture_bytes": 256 << 10, "queue_bytes": 8 << 20}
#: What a process may grow by under those limits: its queue, what is examined at once with what it inflates to, and an allowance.
BUDGET = 8 * MIB + IN_FLIGHT * 4 * (256 << 10) + 64 * MIB
#: Back in use within 5 s of being well; one more until the comparison is committed and seen.
RECOVERY = 6.0

Figure = Callable[[str, str], None]


@dataclass(frozen=True)
class Mirror:
    """A proxy and its shadow; ``well`` is what the shadow is called when it is well, behind TLS or not."""

    proxy: ProxyProcess
    shadow: Sick
    well: str
    wanted: list[load.Said]

    def ask(self, count: int) -> None:
        """So many requests, each answered as the engine itself answers."""
        tally = uvloop.run(load.alternate({"now": self.proxy.clients}, 1, count, self.wanted))["now"]
        assert (tally.failed, tally.wrong) == (0, [])


@contextmanager
def mirrored(primary: Sick, certificates: Path, directory: Path, well: str) -> Iterator[Mirror]:
    with sick(certificates=certificates) as shadow:
        shadow.become(well)
        url = shadow.tls_url if well == "trusted" else shadow.url
        with parhelion(
            directory, primary.url, arms(url, deadline=2.0), limits=LIMITS, timeouts={"connect": 2.0}
        ) as proxy:
            proxy.wait_known(["primary", "cand"], 30)
            mirror = Mirror(proxy, shadow, well, uvloop.run(load.expect(primary.url)))
            mirror.ask(100)
            assert settled(proxy, 100).ended("cand") == {"compared": 100}
            yield mirror


@pytest.fixture(scope="module")
def plain(primary: Sick, certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    with mirrored(primary, certificates, tmp_path_factory.mktemp("plain"), "well") as mirror:
        yield mirror


@pytest.fixture(scope="module")
def over_tls(primary: Sick, certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificates / "authority.pem"))
        with mirrored(primary, certificates, tmp_path_factory.mktemp("tls"), "trusted") as mirror:
            yield mirror


@pytest.mark.slow
def test_clients_never_notice_a_shadow_that_is_well(plain: Mirror, bare: ProxyProcess, figure: Figure) -> None:
    received = Metrics(plain.proxy).sum("received_total")
    both = {"bare": bare.clients, "well": plain.proxy.clients}
    sides = uvloop.run(load.alternate(both, ROUNDS, BLOCK, plain.wanted))
    settled(plain.proxy, received + ROUNDS * BLOCK)
    figure("row 4", f"well: {told(sides)}")
    assert [(tally.failed, tally.wrong) for tally in sides.values()] == [(0, []), (0, [])]


@pytest.mark.slow
@pytest.mark.parametrize("ill", [*sorted(FAULTS), "refuse"])
def test_clients_never_notice_an_ill_shadow(ill: str, plain: Mirror, bare: ProxyProcess, figure: Figure) -> None:
    fall_ill(plain, ill, bare, figure)


@pytest.mark.slow
@pytest.mark.parametrize("ill", ["plain", "untrusted"])
def test_clients_never_notice_that_tls_fails(ill: str, over_tls: Mirror, bare: ProxyProcess, figure: Figure) -> None:
    """A server that speaks no TLS behind https://, and a certificate that nobody trusts."""
    fall_ill(over_tls, ill, bare, figure)


def fall_ill(mirror: Mirror, ill: str, bare: ProxyProcess, figure: Figure) -> None:
    proxy, shadow = mirror.proxy, mirror.shadow
    before = Metrics(proxy)
    shadow.become(ill)
    try:
        with watch.growth(proxy, shadow.port) as grown:
            both = {"bare": bare.clients, "ill": proxy.clients}
            sides = uvloop.run(load.alternate(both, ROUNDS, BLOCK, mirror.wanted))
            seen = settled(proxy, before.sum("received_total") + ROUNDS * BLOCK)
    finally:
        shadow.become(mirror.well)
    earlier = before.ended("cand")
    ended = {why: n - earlier.get(why, 0) for why, n in seen.ended("cand").items() if n > earlier.get(why, 0)}
    figure("row 4", f"{ill}: {told(sides)}; {grown}; {ended}")
    for tally in sides.values():
        assert (tally.failed, tally.wrong) == (0, [])
    assert sum(ended.values()) == ROUNDS * BLOCK
    assert "compared" not in ended  # nothing an ill shadow says is ever compared
    assert grown.connections <= IN_FLIGHT
    grown.within(BUDGET)
    figure("row 4", f"{ill}: in use again {recovery(mirror):.1f} s after it is well")


def told(sides: dict[str, load.Tally]) -> str:
    words = [f"{name} {tally.failed} of {tally.asked} failed, {tally.in_words()}" for name, tally in sides.items()]
    return "; ".join(words)


def recovery(mirror: Mirror) -> float:
    """Seconds from the shadow's being well to the first comparison; from then on everything must be compared again."""
    proxy = mirror.proxy
    before = Metrics(proxy).sum("compared_total")
    began = time.monotonic()

    def compared() -> bool:
        mirror.ask(1)
        return Metrics(proxy).sum("compared_total") > before

    until(compared, 20, "a comparison with the shadow that is well")
    took = time.monotonic() - began
    assert took <= RECOVERY, f"in use again only after {took:.1f} s"
    received = Metrics(proxy).sum("received_total")
    before = settled(proxy, received).sum("compared_total")
    mirror.ask(50)
    assert settled(proxy, received + 50).sum("compared_total") == before + 50
    return took


@pytest.mark.slow
def test_clients_never_notice_a_name_that_there_is_not(
    primary: Sick, bare: ProxyProcess, tmp_path: Path, figure: Figure
) -> None:
    with parhelion(tmp_path, primary.url, arms("http://shadow.invalid:8000"), limits=LIMITS) as proxy:
        proxy.wait_known(["primary"], 30)
        wanted = uvloop.run(load.expect(primary.url))
        with watch.growth(proxy) as grown:
            sides = uvloop.run(load.alternate({"bare": bare.clients, "ill": proxy.clients}, ROUNDS, BLOCK, wanted))
            seen = settled(proxy, ROUNDS * BLOCK)
        figure("row 4", f"dns: {told(sides)}; {grown}; {seen.ended('cand')}")
        assert [(tally.failed, tally.wrong) for tally in sides.values()] == [(0, []), (0, [])]
        assert seen.ended("cand") == {"compared": 0, "shed:shadow_unready": ROUNDS * BLOCK}
        grown.within(BUDGET)
