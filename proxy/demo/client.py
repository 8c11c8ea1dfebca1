"""The demo's client: the official ``openai`` package, pointed at the proxy as any user would point it.

House rules. It knows nothing of shadows; it sends what it is given, one request after another, and reads every reply to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from openai import OpenAI, OpenAIError

from proxy.demo.prompts import Ask


class ClientError(Exception):
    """The primary did not answer through the proxy."""


def send_all(base_url: str, asks: Iterable[Ask], progress: Callable[[int], None]) -> int:
    """Send every request; returns how many were answered. Raises ClientError at the first that is not."""
    done = 0
    with OpenAI(base_url=f"{base_url}/v1", api_key="unused", max_retries=0, timeout=180.0) as client:
        for ask in asks:
            create = client.chat.completions.create if ask.kind == "chat" else client.completions.create
            try:
                reply = create(**ask.arguments)
                if ask.stream:
                    for _ in reply:
                        pass
            except OpenAIError as error:
                raise ClientError(f"request {done + 1}: {type(error).__name__}") from None
            done += 1
            progress(done)
    return done
