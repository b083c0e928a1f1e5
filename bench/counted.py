"""`taskplane` with every bound SQL byte counted: `python -m bench.counted PORT dev ...`; GET 127.0.0.1:PORT tells."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from bench.counting import bound_bytes, count_bound_bytes
from taskplane.cli.__main__ import main


class _Count(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"bytes": bound_bytes()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    count_bound_bytes()
    server = HTTPServer(("127.0.0.1", int(sys.argv.pop(1))), _Count)
    Thread(target=server.serve_forever, daemon=True).start()
    main()
