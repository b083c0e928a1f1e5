"""A server of the Gemini API with scripted answers, over real HTTP."""

import json
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Json = dict[str, Any]


def call(name: str, /, **arguments: Any) -> Json:
    """A part that calls a function."""
    return {"functionCall": {"name": name, "args": arguments}}


def words(text: str) -> Json:
    """A part with a text."""
    return {"text": text}


@contextmanager
def gemini(script: Callable[[list[Json]], list[Json]]) -> Generator[str]:
    """A served model, by its URL. The script gets the contents of a request and gives the parts of the answer; each
    part is an event of the stream."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert re.fullmatch(r"/v1beta/models/[\w.-]+:streamGenerateContent\?alt=sse", self.path), self.path
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            parts = script(request["contents"])
            events: list[Json] = [
                {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]} for part in parts
            ]
            events[-1]["candidates"][0]["finishReason"] = "STOP"
            body = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
