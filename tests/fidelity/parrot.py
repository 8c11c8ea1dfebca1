"""An engine that keeps all it is sent and quotes it back: in errors, as OpenAI does with keys, in headers, in garbage, or not at all."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Parrot(ThreadingHTTPServer):
    """``received`` is every head and body, ``visits`` the connections, ``url`` where it listens."""

    daemon_threads = True

    def __init__(self, pause: float) -> None:
        self.pause = pause
        self.received: list[bytes] = []
        self.turns = itertools.count()
        self.visits = 0
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def verify_request(self, request: object, client_address: object) -> bool:
        self.visits += 1
        return True

    def sent(self, *words: str) -> bool:
        """Whether any one request held all these words."""
        return any(all(word.encode() in one for word in words) for one in self.received)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Parrot

    def do_GET(self) -> None:
        if self._take() and self.path.partition("?")[0].endswith("/v1/models"):
            self._answer(200, json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())
        else:
            self._answer(404, self.server.received[-1])

    def do_POST(self) -> None:
        self._take()
        quoted = self.server.received[-1]
        time.sleep(self.server.pause)
        match (
            next(self.server.turns) % 5 if b"tell me" in quoted else 4
        ):  # whoever probes is told what it wants to hear
            case 0:
                self._answer(
                    401, json.dumps({"error": {"message": f"Incorrect API key provided: {quoted!r}"}}).encode()
                )
            case 1:
                self._answer(500, quoted)
            case 2:
                self._answer(200, b'{"choices": [')
            case _:
                message = {"role": "assistant", "content": "fine"}
                row = {"token": "fine", "logprob": -0.1, "bytes": [102], "top_logprobs": []}
                choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": {"content": [row]}}
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                self._answer(
                    200,
                    json.dumps(
                        {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
                    ).encode(),
                )

    def _take(self) -> bool:
        length = int(self.headers.get("Content-Length", 0))
        self.server.received.append(self.requestline.encode() + b"\r\n" + bytes(self.headers) + self.rfile.read(length))
        return True

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status, "Quoting")
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Quoted", self.headers.get("Authorization", ""))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def parrot(pause: float = 0.0) -> Iterator[Parrot]:
    """One, serving; it takes ``pause`` seconds over an answer."""
    server = Parrot(pause)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
