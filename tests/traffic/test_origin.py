"""Base URLs: what is understood, and what is refused in words that hold no secret."""

from __future__ import annotations

import pytest

from proxy.traffic.origin import Origin, read_origin, tls_context


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://vllm:8000", Origin("vllm", 8000, tls=False, host=b"vllm:8000", prefix=b"")),
        ("https://api.test/openai/", Origin("api.test", 443, tls=True, host=b"api.test", prefix=b"/openai")),
        ("http://h:80/", Origin("h", 80, tls=False, host=b"h", prefix=b"")),
        ("http://[::1]:9/a%2Fb", Origin("::1", 9, tls=False, host=b"[::1]:9", prefix=b"/a%2Fb")),
        (
            "http://b\u00fccher.test",
            Origin("xn--bcher-kva.test", 80, tls=False, host=b"xn--bcher-kva.test", prefix=b""),
        ),
    ],
)
def test_understood(url: str, origin: Origin) -> None:
    assert read_origin(url) == origin
    assert (tls_context(origin) is not None) == origin.tls


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("", "http://"),
        ("ftp://x", "http://"),
        ("http://", "name a host"),
        ("http://sk-canary:y@h", "credentials"),
        ("http://h/?key=sk-canary", "query"),
        ("http://h/#x", "query"),
        ("http://h/a b", "percent-encoded"),
        ("http://h:99999", "Port"),
    ],
)
def test_refused(url: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as caught:
        read_origin(url)
    assert "sk-canary" not in str(caught.value)
