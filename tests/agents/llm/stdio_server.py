"""A server of tools that starts at once, since it imports nothing. It writes its process id, and "listed" and "called"
when its tools are, to the file that is its first argument. After `mute` it does not list them; after `late` and a
number it answers nothing for so many seconds."""

import json
import os
import sys
import time
from typing import Any

TOOL: dict[str, Any] = {
    "name": "wait",
    "description": "Wait for ever.",
    "inputSchema": {"type": "object", "properties": {}},
}


def answer(method: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the result of a request; None leaves the request without an answer."""
    if method == "initialize":
        info = {"name": "waits", "version": "1"}
        return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        note("listed")
        return {"tools": [TOOL]} if "mute" not in sys.argv else None
    if method == "tools/call":
        note("called")
        return None
    return {}


def note(line: object) -> None:
    with open(sys.argv[1], "a") as file:
        file.write(f"{line}\n")


note(os.getpid())
if "late" in sys.argv:
    time.sleep(float(sys.argv[-1]))
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        result = answer(request["method"], request.get("params", {}))
        if result is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
