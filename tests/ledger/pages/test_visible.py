"""What a template prints: foreign text made visible and harmless, numbers with what they are worth, nothing as a dash."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup, escape

from proxy.ledger.pages.frame import environment
from proxy.ledger.pages.visible import amount, count, ending, moment, printed, seconds, share, shortened, size, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ntext", "plain\ntext"),
        ("\x1b[31m", "␛[31m"),
        ("a\tb\r\x00\x7f", "a␉b␍␀␡"),
        ("\u202eevil", "‹U+202E›evil"),
        ("zero\u200bwidth\ufeff", "zero‹U+200B›width‹U+FEFF›"),
        ("\ud800", "‹U+D800›"),
        ("né 日本 😀 עברית", "né 日本 😀 עברית"),
        ("\u2028", "‹U+2028›"),
    ],
)
def test_what_is_not_seen_is_written_out(text, shown):
    assert visible(text) == shown


@given(st.text())
def test_nothing_unseen_is_left(text):
    shown = visible(text)
    assert all(one == "\n" or unicodedata.category(one)[0] != "C" for one in shown)
    assert visible(shown) == shown


@given(st.text(st.sampled_from("<>&\"'ab\u202e\x1b{}%")))
def test_a_template_prints_no_markup_of_others(text):
    made = environment().from_string("{{ a }}|{{ a | shortened(500) }}|<p title='{{ a }}'>").render(a=text)
    assert made == f"{escape(visible(text))}|{escape(visible(text))}|<p title='{escape(visible(text))}'>"


def test_values_that_are_no_text():
    assert [printed(one) for one in (None, True, False, 3, Markup("<b>"))] == ["–", "yes", "no", 3, Markup("<b>")]


@pytest.mark.parametrize(
    ("make", "value", "shown"),
    [
        (count, 1234567, "1,234,567"), (count, None, "–"), (count, 0, "0"),
        (amount, 0.000123456, "0.000123"), (amount, 0, "0"), (amount, 1.5, "1.5"), (amount, 123456.0, "123,456"), (amount, 1e-9, "1.00e-09"),
        (amount, None, "–"), (amount, -0.25, "-0.25"), (amount, 99.96, "100"), (amount, 12345.6, "12,346"),
        (share, 0.0108333, "1.08 %"), (share, 1.0, "100 %"), (share, None, "–"),
        (seconds, 8.1e-5, "81 µs"), (seconds, 0.0412, "41.2 ms"), (seconds, 1.5, "1.5 s"), (seconds, 600, "10 min"), (seconds, 7300, "2 h"),
        (seconds, 4e5, "5 d"), (seconds, None, "–"), (seconds, 0, "0 µs"),
        (size, 512, "512 B"), (size, 5_000_000_000, "4.66 GiB"), (size, None, "–"), (size, 0, "0 B"),
    ],
)  # fmt: skip
def test_numbers(make, value, shown):
    assert make(value) == shown


def test_a_moment_is_a_time_in_utc():
    assert moment(1_700_000_000.9) == '<time datetime="2023-11-14T22:13:20+00:00">2023-11-14 22:13:20</time>'
    assert moment(None) == "–"


def test_a_cut_is_marked():
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"
    assert shortened(True) == "yes"


def test_of_what_begins_alike_the_end_is_shown():
    assert ending("traffic0-18ed03ef300b186c-6") == "…b186c-6"
    assert (ending("short"), ending(None)) == ("short", "–")
