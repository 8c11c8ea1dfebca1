"""Under ``hash`` and ``none`` no text is left anywhere in a record; ids, positions and numbers are."""

from __future__ import annotations

import msgspec
import pytest

from proxy.compare.comparison import FlipClass
from proxy.ledger import privacy
from proxy.ledger.record import Content

SALT = b"salt"


def test_text_is_kept_as_it_is():
    assert privacy.content("text", SALT, "q", ("a",), ("b", "c")) == Content("q", ("a",), ("b", "c"))


def test_none_keeps_nothing():
    assert privacy.content("none", SALT, "q", ("a",), ("b",)) is None


def test_hashes_are_keyed_and_equal_texts_stay_equal():
    kept = privacy.content("hash", SALT, "q", ("same", "other"), ("same", ""))
    other = privacy.content("hash", b"pepper", "q", ("same", "other"), ("same", ""))
    assert kept.primary[0] == kept.shadow[0]
    assert kept.primary[0] != kept.primary[1]
    assert kept.primary[0] != other.primary[0]
    assert all(len(value) == 64 for value in (kept.request, *kept.primary, *kept.shadow))
    # HMAC-SHA-256 of "q" under "salt", from openssl
    assert kept.request == "9df3c7c2dc2b66e32939c8225b98947c0922fbcace25f984ebd5192ff5b742c5"


def test_hash_without_a_salt_is_refused():
    with pytest.raises(ValueError, match="salt"):
        privacy.content("hash", b"", "q", (), ())


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="none, hash, text"):
        privacy.content("txt", SALT, "q", (), ())


@pytest.mark.parametrize("policy", ["hash", "none"])
def test_redaction_takes_every_text_and_nothing_else(make, policy):
    for comparison in (make.free(FlipClass.GENUINE), make.forced(FlipClass.NEAR_TIE, FlipClass.GENUINE)):
        redacted = privacy.redact(policy, comparison)
        encoded = msgspec.json.encode(redacted)
        assert b"hello" not in encoded
        assert b"world" not in encoded
        before, after = msgspec.to_builtins(comparison), msgspec.to_builtins(redacted)
        for choice in before["choices"]:
            for flip in [choice["first"], *choice["flips"]]:
                if flip is not None:
                    flip["primary"]["text"] = flip["shadow"]["text"] = None
        assert before == after


def test_redaction_leaves_text_alone_when_text_is_kept(make):
    comparison = make.free(FlipClass.GENUINE)
    assert privacy.redact("text", comparison) is comparison
