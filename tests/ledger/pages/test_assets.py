"""Style and scripts: under names that hold their content, kept for long, and nothing else served."""

from __future__ import annotations

import asyncio
import hashlib
import re
from importlib.resources import files

from aiohttp.test_utils import TestClient, TestServer

from proxy.ledger.admin import make_admin
from proxy.ledger.pages.assets import asset, assets
from proxy.ledger.pages.frame import POLICY, environment


def ask(filled, *paths):
    async def asking():
        async with TestClient(TestServer(make_admin(filled.config, ready=lambda: True))) as client:
            found = []
            for path in paths:
                async with client.get(path) as answer:
                    found.append((answer.status, dict(answer.headers), await answer.read()))
            return found

    return asyncio.run(asking())


def test_each_file_is_served_under_its_hash_and_kept(filled):
    made = assets()
    assert {"parhelion.css", "theme.js", "parhelion.svg"} <= made.keys()
    for (status, headers, body), one in zip(
        ask(filled, *[f"/static/{one.name}" for one in made.values()]), made.values(), strict=True
    ):
        assert status == 200
        assert headers["Content-Type"] == f"{one.kind}; charset=utf-8"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "immutable" in headers["Cache-Control"]
        assert hashlib.sha256(body).hexdigest()[:12] in one.name


def test_other_names_are_not_there(filled):
    names = [
        "parhelion.css",
        "nothing.js",
        "../frame.py",
        "%2e%2e/frame.py",
        "..%2fframe.py",
        asset("theme.js")[8:] + "/",
    ]
    assert [status for status, _, _ in ask(filled, *[f"/static/{name}" for name in names])] == [404] * len(names)


def test_a_page_has_its_own_policy_and_the_api_the_strictest(filled):
    page, api, wrong = ask(filled, "/", "/api/v1/mirror", "/api/v1/records?sheep=1")
    assert page[1]["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY
    assert page[1]["Cache-Control"] == "no-store"
    for one in (api, wrong):
        assert one[1]["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert one[1]["Referrer-Policy"] == "no-referrer"


def test_no_template_has_a_script_a_style_or_a_way_around_escaping():
    for name in environment().list_templates():
        text = files("proxy.ledger.pages").joinpath("templates", name).read_text(encoding="utf-8")
        plain = re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL)
        if (
            name == "report.html"
        ):  # a file by itself: our one style sheet stands in it, under a policy that names its hash
            plain = plain.replace("<style>{{ style }}</style>", "", 1)
        assert not re.search(
            r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:|\|\s*safe\b|autoescape", plain
        ), name
        assert not re.search(r"""(?:src|href|action)=["']?(?:https?:)?//""", plain), name
