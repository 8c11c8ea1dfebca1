"""Replies in the shapes that Ollama, TGI, TensorRT-LLM, Together, Fireworks and OpenRouter give them, made from one list of tokens.

Written from the sources that the dialects name: which keys there are when logprobs were asked for and when not, what is null and what is left out, how a
stream begins and ends. Where a vendor's own types can be had, ``test_vendor_models`` holds these shapes against them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from engines.dialect import Answer


@dataclass(frozen=True)
class Said:
    """One token: text, id, logprob, alternatives by text and logprob (the chosen one included)."""

    text: str
    id: int
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


TOKENS = (
    Said("The", 504, -0.125, (("The", -0.125), ("A", -2.25))),
    Said(" sea", 3575, -0.5, ((" sea", -0.5), (" sky", -1.0))),
    Said(" is", 314, -0.75, ((" is", -0.75), (" was", -0.75))),
    Said(" blue", 4461, -1.5, ((" green", -1.25), (" blue", -1.5))),
)
TEXT = "".join(token.text for token in TOKENS)
PROMPT = 11


@dataclass(frozen=True)
class Accent:
    """How one engine writes: ``head`` on every object, and what differs from OpenAI's whole replies and streams."""

    name: str
    head: dict = field(default_factory=dict)
    finish: str = "stop"
    logprobs_key_when_absent: bool = True
    null_keys_in_events: bool = True
    with_bytes: bool = False
    id_key: str = ""
    end: bytes = b"data: [DONE]\n\n"
    blank: bytes = b""
    comment: bytes = b""

    def row(self, said: Said) -> dict:
        """Return one row of ``logprobs.content``."""
        return {
            **self._entry(said.text, said.logprob, said.id),
            "top_logprobs": [self._entry(*one) for one in said.top],
        }

    def _entry(self, text: str, logprob: float, known: int = 7) -> dict:
        entry = {"token": text, "logprob": logprob}
        if self.with_bytes:
            entry["bytes"] = list(text.encode())
        return {**entry, self.id_key: known} if self.id_key else entry

    def _choice(self, rows: list[Said], *, logprobs: bool, event: bool, **own: object) -> dict:
        choice = {"index": 0, **own}
        if logprobs and rows:
            choice["logprobs"] = {"content": [self.row(one) for one in rows]}
        elif self.logprobs_key_when_absent and not (event and not self.null_keys_in_events):
            choice["logprobs"] = None
        return choice

    def usage(self) -> dict:
        """Return the numbers of tokens."""
        return {"prompt_tokens": PROMPT, "completion_tokens": len(TOKENS), "total_tokens": PROMPT + len(TOKENS)}

    def whole(self, *, logprobs: bool = True) -> dict:
        """Return the reply that is no stream."""
        message = {"role": "assistant", "content": TEXT}
        choice = self._choice(list(TOKENS), logprobs=logprobs, event=False, message=message, finish_reason=self.finish)
        return {"id": "x", "object": "chat.completion", **self.head, "choices": [choice], "usage": self.usage()}

    def events(self, *, logprobs: bool = True, usage: bool = True) -> list[dict]:
        """Return the stream's objects: a role, one event a token, the end, and usage."""
        chunks = [self._choice([], logprobs=logprobs, event=True, delta={"role": "assistant", "content": ""})]
        chunks += [self._choice([said], logprobs=logprobs, event=True, delta={"content": said.text}) for said in TOKENS]
        chunks.append(self._choice([], logprobs=logprobs, event=True, delta={"content": ""}, finish_reason=self.finish))
        for chunk in chunks[:-1]:
            if self.null_keys_in_events:
                chunk["finish_reason"] = None
        head = {"id": "x", "object": "chat.completion.chunk", **self.head}
        made = [{**head, "choices": [chunk]} for chunk in chunks]
        return [*made, {**head, "choices": [], "usage": self.usage()}] if usage else made

    def stream(self, **how: bool) -> bytes:
        """Return the stream's bytes."""
        written = (b"data: " + json.dumps(event).encode() + self.blank + b"\n\n" for event in self.events(**how))
        return self.comment + self.comment.join(written) + self.end


OLLAMA = Accent(
    "ollama", {"model": "m", "system_fingerprint": "fp_ollama"}, logprobs_key_when_absent=False, with_bytes=True
)
TGI = Accent("tgi", {"model": "m", "system_fingerprint": "3.3.6-sha"}, comment=b":\n\n")
TENSORRT_LLM = Accent("tensorrt_llm", {"model": "m"}, null_keys_in_events=False, with_bytes=True, blank=b" ")
FIREWORKS = Accent("fireworks", {"model": "accounts/a/models/m"}, with_bytes=True, id_key="token_id")
OPENROUTER = Accent(
    "openrouter", {"model": "v/m", "provider": "P"}, with_bytes=True, comment=b": OPENROUTER PROCESSING\n\n"
)
ALL = (OLLAMA, TGI, TENSORRT_LLM, FIREWORKS, OPENROUTER)


def together_whole() -> dict:
    """Return Together's reply: the arrays of completions on a chat, with ids."""
    arrays = {
        "tokens": [said.text for said in TOKENS],
        "token_ids": [said.id for said in TOKENS],
        "token_logprobs": [said.logprob for said in TOKENS],
        "top_logprobs": [dict(said.top) for said in TOKENS],
    }
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "eos", "logprobs": arrays}
    return {"id": "x", "object": "chat.completion", "prompt": [], "choices": [choice], "usage": OPENROUTER.usage()}


def together_stream() -> bytes:
    """Return Together's stream: one number a token, its id in the delta."""
    choices = [
        {
            "index": 0,
            "delta": {"role": "assistant", "content": said.text, "token_id": said.id},
            "logprobs": said.logprob,
        }
        for said in TOKENS
    ]
    choices[-1]["finish_reason"] = "eos"
    made = [{"id": "x", "choices": [choice]} for choice in choices]
    made[-1]["usage"] = OPENROUTER.usage()
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in made) + b"data: [DONE]\n\n"


def answer(body: bytes | dict, *, status: int = 200) -> Answer:
    """Return a body as it comes over the wire."""
    if isinstance(body, bytes):
        return Answer(status, (("content-type", "text/event-stream"),), ((0, body),))
    return Answer(status, (("content-type", "application/json"),), ((0, json.dumps(body).encode()),))
