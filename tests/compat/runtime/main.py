"""An agent runtime built of unmodified kagent and ADK parts, driven by another process.

`python main.py URL` stores its tasks and sessions in the server at URL. It reads one JSON object a line, `{"call":
name, "args": {...}}`, and answers each with a line: `{"result": ...}`, or `{"error": {"type", "status", "text"}}` if
the client library raised. Its environment is the one that `make compat` makes.
"""

import asyncio
import json
import sys
import warnings

# Standard output is for the answers, so the output of the libraries goes to the log.
answers, sys.stdout = sys.stdout, sys.stderr
warnings.simplefilter("ignore")

import httpx  # noqa: E402
from calls import Calls  # noqa: E402


async def main(url: str) -> None:
    """Answers until standard input ends."""
    calls = Calls(url)
    loop = asyncio.get_running_loop()
    write({"result": "ready"})
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        try:
            write({"result": await getattr(calls, asked["call"])(**asked["args"])})
        except Exception as error:  # noqa: BLE001
            write({"error": described(error)})
    await calls.close()


def described(error: Exception) -> dict[str, object]:
    """The name of an exception of the library, its HTTP status (0: none), and its text."""
    status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 0
    return {"type": type(error).__name__, "status": status, "text": str(error)}


def write(answer: dict[str, object]) -> None:
    """Writes one line to the driving process."""
    print(json.dumps(answer), file=answers, flush=True)


asyncio.run(main(sys.argv[1]))
