"""The runtime of kagent and ADK parts in a separate process with a separate environment, and calls to it."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.repo.tree import ROOT

# The packages need an older a2a-sdk than our own tests, so they have an environment of `make compat`.
PYTHON = ROOT / ".venv-compat" / "bin" / "python"
READY = ROOT / ".venv-compat" / ".ready"
_MAIN = Path(__file__).parent / "runtime" / "main.py"
_LONGEST_LINE = 64 * 1024 * 1024
_PATIENCE = 90.0


class Refused(Exception):
    """A client library raised an error. `status` is its HTTP status; 0: none."""

    def __init__(self, kind: str, status: int, text: str) -> None:
        super().__init__(f"{kind} {status}: {text}")
        self.kind = kind
        self.status = status


class Runtime:
    """Calls to a running process; one at a time."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._one = asyncio.Lock()

    async def call(self, name: str, **arguments: Any) -> Any:
        """The result of one of `runtime.calls.Calls`. Refused: the call raised an error."""
        assert self._process.stdin is not None
        async with self._one:
            self._process.stdin.write(json.dumps({"call": name, "args": arguments}).encode() + b"\n")
            await self._process.stdin.drain()
            answer = await self.answer()
        if "error" in answer:
            error = answer["error"]
            raise Refused(error["type"], error["status"], error["text"])
        return answer["result"]

    async def answer(self) -> Any:
        """The next line of the output of the process."""
        assert self._process.stdout is not None
        async with asyncio.timeout(_PATIENCE):
            line = await self._process.stdout.readline()
        assert line, self._log.read_text(errors="replace")[-4000:]
        return json.loads(line)


@asynccontextmanager
async def running(url: str, log: Path) -> AsyncGenerator[Runtime]:
    """A runtime that stores everything in the server at `url`. It is ended, and if necessary killed, at the end of the
    block."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TASKPLANE_", "PYTHON"))}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(PYTHON),
            str(_MAIN),
            url,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=output,
            env=kept,
            limit=_LONGEST_LINE,
            start_new_session=True,
        )
    try:
        runtime = Runtime(process, log)
        assert await runtime.answer() == {"result": "ready"}
        yield runtime
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
