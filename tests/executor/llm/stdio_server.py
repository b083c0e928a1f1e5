"""A server of tools that starts at once, since it imports nothing. It writes its process id, and "listed" and "called"
when its tools are, to the file that is its first argument; with a second one it does not list them."""

import json
import os
import sys
from typing import Any

TOOL: dict[str, Any] = {
    "name": "wait",
    "description": "Wait for ever.",
    "inputSchema": {"type": "object", "properties": {}},
}


def answer(method: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None: it is never answered."""
    if method == "initialize":
        info = {"name": "waits", "version": "1"}
        return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        note("listed")
        return {"tools": [TOOL]} if len(sys.argv) == 2 else None
    if method == "tools/call":
        note("called")
        return None
    return {}


def note(line: object) -> None:
    with open(sys.argv[1], "a") as file:
        file.write(f"{line}\n")


note(os.getpid())
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        result = answer(request["method"], request.get("params", {}))
        if result is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
