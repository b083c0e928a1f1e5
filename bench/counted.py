"""`taskplane` with its work counted: `python -m bench.counted PORT dev ...`.

GET 127.0.0.1:PORT/ answers with the bytes bound in SQL; `/calls` with Python calls, SQL statements and commits, once
the variable BENCH_CALLS is set.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from bench.calls import calls, start_counting
from bench.counting import bound_bytes, count_bound_bytes, count_statements, statements
from taskplane.cli.__main__ import main


class _Count(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = {"calls": calls(), "statements": statements()} if self.path == "/calls" else {"bytes": bound_bytes()}
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv.pop(1))), _Count)
    Thread(target=server.serve_forever, daemon=True).start()
    if os.environ.get("BENCH_CALLS"):
        # Before any thread of the services, and without the listener of bound bytes, which has calls of its own.
        count_statements()
        start_counting()
    else:
        count_bound_bytes()
    main()
