"""From a wheel to the first streamed answer, in a fresh virtual environment.

python -m bench.installing dist/taskplane-*.whl [--python python3.13] [--no-cache]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx


def measure(wheel: Path, python: str, options: list[str]) -> dict[str, float]:
    """Return the seconds of each step. The answer is there with the first text of the agent."""
    took: dict[str, float] = {}
    before = time.perf_counter()

    def done(step: str) -> None:
        nonlocal before
        now = time.perf_counter()
        took[step], before = now - before, now

    with TemporaryDirectory() as folder:
        programs = Path(folder) / "environment" / "bin"
        subprocess.run([python, "-m", "venv", str(programs.parent)], check=True)
        done("virtual environment")
        pip = [str(programs / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *options]
        subprocess.run([*pip, str(wheel)], check=True)
        done("pip install")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TASKPLANE_", "PYTHON"))}
        command = [str(programs / "taskplane"), "dev", "--port", "0", "--grpc-port", "0"]
        plane = subprocess.Popen(
            command, cwd=folder, env={**kept, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True
        )
        try:
            assert plane.stdout is not None
            lines: list[str] = []
            while not (lines and lines[-1].startswith("ready in ")):
                lines.append(plane.stdout.readline() or sys.exit("taskplane dev ended:\n" + "".join(lines)))
            done("taskplane dev")
            (url,) = [line.split()[1] for line in lines if line.startswith("A2A ")]
            _first_text(url)
            done("first streamed answer")
        finally:
            plane.terminate()
            plane.communicate()
    return took


def _first_text(url: str) -> None:
    """Send a message and read its stream up to the first text of the agent."""
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "count 3"}]}
    call: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    with httpx.stream("POST", url, json=call, headers={"A2A-Version": "1.0"}, timeout=60) as reply:
        for line in reply.iter_lines():
            if not line.startswith("data:"):
                continue
            event: dict[str, Any] = json.loads(line.removeprefix("data:"))["result"]
            if "artifactUpdate" in event or "message" in event.get("statusUpdate", {}).get("status", {}):
                return
    sys.exit("the stream ended without a text")


def main() -> None:
    """Measure once and print the seconds of each step."""
    parser = argparse.ArgumentParser(prog="bench.installing", description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environment")
    parser.add_argument("--no-cache", action="store_true", help="download everything")
    options = parser.parse_args()
    took = measure(options.wheel.resolve(), options.python, ["--no-cache-dir"] if options.no_cache else [])
    for step, seconds in took.items():
        print(f"{step:24} {seconds:6.1f} s")
    print(f"{'in all':24} {sum(took.values()):6.1f} s")


if __name__ == "__main__":
    main()
