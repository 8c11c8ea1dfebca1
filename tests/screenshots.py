"""The pictures of the README: ``python -m tests.screenshots`` takes them anew, of the product as it is, and writes them to ``.github``.

Three scripted engines (a primary, its twin as control, a candidate whose logits are off), the whole proxy before them, a few dozen requests; then Debian's Chromium looks at the pages.
Everything runs on loopback in a temporary directory. Names of pictures on the command line (``overview``, ``comparison``, ...) take those alone.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import yaml
from playwright.async_api import Page, async_playwright

from proxy.demo.proxy_process import ProxyProcess
from tests import programs
from tests.running import ROOT, parhelion, post, scripted
from tests.whole import settle

_PLACE = ROOT / ".github"
_REQUESTS = 60
#: Name, page, height in CSS pixels (None: all of it).
PICTURES: dict[str, tuple[str, int | None]] = {
    "overview": ("/", 960),
    "comparison": ("/divergences/{record}", 1000),
    "verdict": ("/verdict", 1100),
    "report": ("{report}", 1100),
}
_CANDIDATE = {
    "toy": {"seed": 0},
    "differences": {"noise": 0.08, "noise_seed": 3, "precision": "bf16"},
    "routes": {"/server_info": {"kv_cache_dtype": "fp8_e4m3", "attention_backend": "fa3"}},
}
_CONTROL = {"differences": {"noise": 0.004, "noise_seed": 5}}
_QUESTIONS = (
    "What of the world",
    "Tell me of halos",
    "Where is the river",
    "Who was here before",
    "Why does ice float",
    "How long is the night",
)
_SMALLER = """
import sys
from PIL import Image
for name in sys.argv[1:]:
    Image.open(name).convert("RGB").quantize(256, kmeans=3, dither=Image.Dither.NONE).save(name, optimize=True)
"""


def main(names: list[str]) -> None:
    """Take the pictures."""
    wanted = {name: PICTURES[name] for name in names or PICTURES}
    with tempfile.TemporaryDirectory(prefix="parhelion-") as folder, _lived(Path(folder)) as proxy:
        report = Path(folder) / "report.html"
        if "report" in wanted:
            _report(proxy, report)
        record = orjson.loads(proxy.get("/api/v1/records?class=genuine&mode=free&limit=1"))["records"][0]["id"]
        addresses = {
            name: (page.format(record=record, report=report.as_uri()), height)
            for name, (page, height) in wanted.items()
        }
        taken = asyncio.run(_take(proxy.admin, addresses))
    pillow = programs.environment("pictures", "pillow==12.0.0")
    subprocess.run([str(pillow / "python"), "-c", _SMALLER, *map(str, taken)], check=True, timeout=120)
    for path in taken:
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1024:.0f} KiB")


@contextmanager
def _lived(folder: Path) -> Iterator[ProxyProcess]:
    """Run a proxy that has seen some traffic."""
    scripts = []
    for name, script in (("candidate", _CANDIDATE), ("control", _CONTROL)):
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(script))
        scripts.append(path)
    with (
        scripted("vllm") as primary,
        scripted("sglang", scripts[0]) as candidate,
        scripted("vllm", scripts[1]) as control,
    ):
        shadows: list[dict[str, Any]] = [
            {"name": "sglang-h200", "url": candidate, "declare": {"gpu": "H200"}},
            {"name": "vllm-twin", "role": "control", "url": control, "declare": {"gpu": "H100"}},
        ]
        settings = {"primary": {"url": primary, "declare": {"gpu": "H100"}}}
        with parhelion(folder, primary, shadows, **settings) as proxy:
            proxy.wait_known(["primary", "sglang-h200", "vllm-twin"], 60)
            for number in range(_REQUESTS):
                question = f"{_QUESTIONS[number % len(_QUESTIONS)]}, traveller {number}?"
                asked = {"model": "toy", "messages": [{"role": "user", "content": question}], "temperature": 0}
                more = {"max_tokens": 48, "stream": True, "logprobs": True, "top_logprobs": 5}
                status, _, _ = post(f"{proxy.clients}/v1/chat/completions", asked | more)
                assert status == 200
            settle(proxy, _REQUESTS)
            yield proxy


def _report(proxy: ProxyProcess, path: Path) -> None:
    words = [sys.executable, "-P", "-m", "proxy.cli", "report", "-c", str(proxy.config), "--html", str(path)]
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, timeout=120, check=False
    )
    assert done.returncode in (0, 1, 3), done.returncode


async def _take(admin: str, addresses: dict[str, tuple[str, int | None]]) -> list[Path]:
    chromium = programs.debian("chromium", "chromium")
    taken = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(chromium), chromium_sandbox=os.geteuid() != 0)
        page = await browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="light")
        await page.goto(admin)  # has the report of the newest records made
        await page.wait_for_timeout(3000)
        for name, (address, height) in addresses.items():
            answer = await page.goto(address if "://" in address else admin + address)
            assert answer is None or answer.status in (0, 200), f"{address}: {answer.status}"
            taken.append(await _picture(page, _PLACE / f"{name}.png", height))
        await browser.close()
    return taken


async def _picture(page: Page, path: Path, height: int | None) -> Path:
    whole = int(await page.evaluate("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": 1200, "height": min(whole, height or whole)}
    await page.screenshot(path=path, full_page=True, clip=clip, animations="disabled")
    return path


if __name__ == "__main__":
    main(sys.argv[1:])
