"""Nothing that a terminal acts on is left in any text, and what can be read stays readable."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.ledger.inert import inert


@pytest.mark.parametrize("text", ["plain", "Grüße", "日本語", "नमस्ते", "🙂 ok", "[bold]not markup[/]"])
def test_what_can_be_read_stays(text):
    assert inert(text) == text


def test_escapes_and_directions_go():
    assert inert("a\x1b[2Jb\u202ec\u2028d\u200be\x9bf\n") == "a\ufffd[2Jb\ufffdc\ufffdd\ufffde\ufffdf\ufffd"


@given(st.text(max_size=300))
def test_no_text_does_anything(text):
    shown = inert(text, 100)
    assert len(shown) <= 100
    assert not any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in shown)


def test_long_text_says_that_it_goes_on():
    assert inert("x" * 11, 10) == "x" * 9 + "…"
    assert inert(12345) == "12345"
