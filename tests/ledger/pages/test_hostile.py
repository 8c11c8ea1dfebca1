"""Every field that comes from outside holds every text that means harm: nothing runs, nothing leaves its element, pages stay small, texts can be had whole."""

from __future__ import annotations

import json
import random
import urllib.request

import pytest
from msgspec.structs import replace

from proxy.compare.comparison import FlipClass, TokenRef
from proxy.compare.token_stream import Alternative, Channel
from proxy.ledger import known_file
from proxy.ledger.detail import ChoiceDetail, Detail, Listed, Partial, Run, Side
from proxy.ledger.known import Match, Rule, Rules
from proxy.ledger.pages.token_text import LONGEST, marked
from proxy.ledger.pages.visible import visible
from proxy.ledger.record import Content, Record, Settlement
from proxy.ledger.store import Store
from tests.browser import accessible, fits
from tests.ledger.filled import NOW, configuration, free, record

LIMIT = 600_000  # bytes of any page
CORPUS = {
    "script": "<script>window.harmed=1</script>",
    "image": "<img src=x onerror='window.harmed=1'>",
    "svg": "<svg/onload=window.harmed=1><a href='javascript:window.harmed=1'>x</a></svg>",
    "attributes": '" onmouseover="window.harmed=1" x=\'',
    "closing": "</bdi></a></td></table></main></textarea></title></style></script><base href='//evil.example/'>",
    "address": "javascript:window.harmed=1//",
    "template": "{{ 7 * 7 }}{% raw %}${7*7}<%= 7*7 %>#{7*7}",
    "ansi": "\x1b[2J\x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x9b31m",
    "controls": "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0)))),
    "bidi": "\u202e\u2066abc\u2069\u202d\u200f\u061c",
    "unseen": "\u200b\u200c\u200d\ufeff\u2028\u2029\u00ad\U000e0041\ufff9",
    "flood": "Z" + "\u0301\u0489" * 3000,
    "wide": "\u2e3b" * 300 + "W" * 5000,
    "meta": "<meta http-equiv=refresh content='0;url=//evil.example'><iframe srcdoc='<script>parent.harmed=1</script>'></iframe>",
}
MEGABYTE = "A" * 1_000_000 + CORPUS["script"]
_SEEN = set("\n")  # the only control character that a page may hold


def hostile(name: str, text: str) -> tuple[Record, Detail]:
    """A record in which everything that an engine or a client says is ``text``."""
    made = free(random.Random(3), FlipClass.GENUINE)
    [choice] = made.choices
    first = replace(choice.first, index=2, primary=TokenRef(5, text, -0.1), shadow=TokenRef(6, text + "x", -0.2))
    choice = replace(choice, first=first, compared=3, exposed=3, finish_reasons=(text, text))
    evidence = {"tool_call_name": {"finding": text, text[:40]: text[:200]}}
    comparison = replace(made, choices=(choice,), findings=("tool_call_name",), evidence=evidence, detail=text[:900])
    body = {
        "model": text, text[:60]: text, "tools": [{"name": text}],
        "messages": [{"role": text, "content": text, "name": text}, {"role": "user", "content": [{"type": text, "text": text}, {"type": text}]}],
    }  # fmt: skip
    kept = record(
        f"{name}0", comparison, NOW - 9, exchange=f"x{name}", model=text[:200], shadow=text[:100] or "s", endpoint=text[:40],
        content=Content(json.dumps(body), (text,), (text,)), primary_footprint=f"f{name}", shadow_footprint=f"f{name}",
    )  # fmt: skip
    top = tuple(Alternative(-0.1 - n, n, text[:300], text.encode()[:300]) for n in range(20))
    texts = (text,) * 5 if len(text) < 100_000 else ("a", text, "c", "d", "e")
    side = Side(
        (-0.1,) * 5,
        (1, 2, 5, 4, 3),
        texts,
        (Partial(1, b"\xff<b>"),),
        (Run(0, Channel.CONTENT),),
        (Listed(2, top),),
        5,
    )
    return kept, Detail((ChoiceDetail(0, side, side),))


@pytest.fixture(scope="module")
def harmful(tmp_path_factory):
    """A replica of nothing else."""
    config = configuration(tmp_path_factory.mktemp("harmful"))
    long = Side((-0.1,) * 4096, tuple(range(4096)), ("word ",) * 4096, total=10_000)
    with Store.open(config.records.url) as store:
        every = [hostile(*one) for one in (*CORPUS.items(), ("megabyte", MEGABYTE))]
        kept, _ = hostile("long", "x")
        every.append((kept, Detail((ChoiceDetail(0, long, long),))))
        for name, text in CORPUS.items():
            store.put_footprint(f"f{name}", dict.fromkeys(("engine", "version", "gpu", "dtype"), text[:200]), NOW)
        store.settle(
            [Settlement("i1", one.shadow, "free", "compared", "", one, detail=detail) for one, detail in every]
        )
    rules = (
        Rule(f"r{at}", Match(mode="free", difference="exact_tie"), NOW + 9, NOW, text[:500])
        for at, text in enumerate(CORPUS.values())
    )
    known_file.save(config, Rules(tuple(rules)))
    return config


@pytest.fixture(scope="module")
def port(admin_port, harmful):
    """The address of its admin port."""
    with admin_port(harmful, clock=lambda: NOW) as address:
        yield address


def body(address: str) -> str:
    """Get a page."""
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read().decode()


NAMES = (*CORPUS, "megabyte", "long")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_small_and_holds_nothing_unseen(port, name):
    for query in ("", "?token=1", "?part=panel"):
        page = body(f"{port}/divergences/{name}0{query}")
        assert len(page.encode()) < LIMIT
        assert {one for one in page if visible(one) != one} <= _SEEN
        assert "\u0301" * 6 not in page
        if name == "megabyte" and query != "?part=panel":
            left_out = len(MEGABYTE) - LONGEST
            assert f"… {left_out:,} more characters" in page


@pytest.mark.parametrize("name", CORPUS)
def test_texts_can_be_had_whole(port, name):
    found = json.loads(body(f"{port}/api/v1/records/{name}0"))
    assert found["content"]["primary"] == [CORPUS[name]]
    assert (
        json.loads(body(f"{port}/api/v1/records/{name}0/detail"))["choices"][0]["primary"]["texts"]
        == [CORPUS[name]] * 5
    )


def test_ten_thousand_tokens_are_shown_in_windows(port):
    page = body(f"{port}/divergences/long0")
    assert (
        "Of the primary&#39;s 10,000 tokens, the first 4,096 are kept." in page
        or "10,000 tokens, the first 4,096 are kept" in page
    )
    assert page.count(' data-token="') <= 2 * 384
    last = body(f"{port}/divergences/long0?from=4090")
    assert 'id="t4095"' in last
    assert "Later tokens" not in last
    assert "Earlier tokens" in last


@pytest.mark.browser
@pytest.mark.parametrize("phone", [False, True])
def test_nothing_runs_and_nothing_leaves_its_element(browse, port, phone):
    async def look(page):
        for path in ("/divergences", "/known", *(f"/divergences/{name}0" for name in NAMES)):
            await page.goto(port + path)
            await fits(page)
            if not phone and path.endswith(("wide0", "megabyte0", "/known")):
                await accessible(page)
            assert (
                await page.locator(
                    "main :is(script, img, iframe, base, meta, [onerror], [onload], [onmouseover], [srcdoc])"
                ).count()
                == 0
            )
            assert await page.locator("main :is([href^='javascript' i], [src], [action^='javascript' i])").count() == 0
            assert await page.locator("main").count() == 1
            strange = await page.evaluate(
                "[...document.querySelectorAll('main a')].filter(a => new URL(a.href).origin !== location.origin).length"
            )
            assert strange == 0
            if path.endswith("0"):
                await page.focus("#t0")
                await page.wait_for_selector("#panel")
        assert await page.title() == "Comparison long0 – Parhelion"

    browse(look, phone=phone)


@pytest.mark.parametrize(
    "query",
    ["model=%ED%A0%80", "model=%FF", "shadow=%00", "exchange=%F0%9F", "finding=%E2%80%AE", "endpoint=" + "x" * 3000],
)
def test_a_hostile_address_is_answered(port, query):
    page = body(f"{port}/divergences?show=all&{query}")
    assert "No record fits" in page
    assert {one for one in page if visible(one) != one} <= _SEEN


def test_halves_of_surrogate_pairs_are_written_out():
    assert visible("\ud800x\udfff") == "‹U+D800›x‹U+DFFF›"
    assert marked("a \ud83d").encode().endswith("‹U+D83D›".encode())
