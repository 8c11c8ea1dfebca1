"""On loopback reading is open to this machine's names; elsewhere it takes the token, and no name gets around it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.ledger.access import OPEN, PAGES, Rules, hostname, is_loopback, refusal

LOCAL = Rules(loopback=True, token=None, public=frozenset({"metrics"}))
NET = Rules(loopback=False, token="s3cret", public=frozenset({"metrics"}))


@pytest.mark.parametrize(
    "host", ["localhost:8001", "127.0.0.1", "127.1.2.3:8001", "[::1]:8001", "[::1]", "a.localhost", "LOCALHOST"]
)
def test_loopback_names_are_answered(host):
    assert refusal(LOCAL, "report", host, None) is None


@pytest.mark.parametrize(
    "host", ["evil.example:8001", "127.0.0.1.evil.example", "10.0.0.1", "", "localhost.evil", "[::2]:1", "::1:8001"]
)
def test_rebound_names_are_not(host):
    refused = refusal(LOCAL, "report", host, None)
    assert refused is not None
    assert refused.status == 421


@pytest.mark.parametrize("rules", [LOCAL, NET])
@pytest.mark.parametrize("page", ["healthz", "readyz"])
def test_health_is_always_open(rules, page):
    assert refusal(rules, page, "whatever", None) is None


@pytest.mark.parametrize(
    ("page", "authorization", "status"),
    [
        ("metrics", None, None),
        ("report", "Bearer s3cret", None),
        ("report", "bearer  s3cret ", None),
        ("report", None, 401),
        ("report", "", 401),
        ("report", "Bearer", 401),
        ("report", "Bearer s3cre", 401),
        ("report", "Bearer s3crett", 401),
        ("report", "Basic s3cret", 401),
        ("report", "Bearer \udcff", 401),
        ("", None, 401),
    ],
)
def test_the_network_needs_the_token(page, authorization, status):
    refused = refusal(NET, page, "evil.example", authorization)
    assert (refused and refused.status) == status
    assert refused is None or "s3cret" not in refused.text


def test_without_a_token_the_network_gets_what_is_public_and_the_reason():
    rules = Rules(loopback=False, token=None, public=frozenset({"metrics"}))
    assert refusal(rules, "metrics", "h", None) is None
    refused = refusal(rules, "report", "h", "Bearer ")
    assert refused.status == 403
    assert "admin_token" in refused.text


@pytest.mark.parametrize("host", ["[::1].evil.example", "[127.0.0.1]x", "[localhost]@evil.example:80"])
def test_what_goes_on_behind_brackets_is_no_loopback_name(host):
    assert refusal(LOCAL, "report", host, None).status == 421


@given(st.text(), st.text())
def test_no_header_raises(host, authorization):
    refusal(LOCAL, "report", host, authorization)
    assert refusal(NET, "report", host, authorization) is not None
    hostname(host)
    is_loopback(host)


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_page_that_can_be_named_public_is_public_then(page):
    assert refusal(Rules(False, "s3cret", frozenset({page})), page, "10.0.0.7", None) is None
    assert (refusal(Rules(False, "s3cret", frozenset()), page, "10.0.0.7", None) is None) == (page in OPEN)
