"""Runs the real command in processes of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

PROGRAM = (sys.executable, "-m", "taskplane.cli")
PATIENCE = 60.0


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without settings of the plane and without colours, and with `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKPLANE_")}
    return {**kept, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **(extra or {})}


def taskplane(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Runs one command to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        env=environment(env),
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@dataclass
class Dev:
    """A `taskplane dev` that is ready. `said` is what it printed until then."""

    process: "subprocess.Popen[str]"
    said: str

    @property
    def url(self) -> str:
        """Of the gateway."""
        return self._found(r"^A2A +(http://[^ ]+?)/ ")

    @property
    def grpc(self) -> str:
        """Address of the gRPC port."""
        return self._found(r"^gRPC +(\S+)")

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Waits for its end: the exit code, and what it printed on both outputs since it was ready."""
        rest, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, rest

    def _found(self, pattern: str) -> str:
        match = re.search(pattern, self.said, re.MULTILINE)
        assert match is not None, self.said
        return match.group(1)


@contextmanager
def dev(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Generator[Dev]:
    """`taskplane dev` on free ports, killed at the end if it still runs."""
    process = subprocess.Popen(
        [*PROGRAM, "dev", "--port", "0", "--grpc-port", "0", *arguments],
        env=environment(env),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("ready in "):
                break
        assert "ready in " in said, said
        yield Dev(process, said)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def said(url: str, text: str, session: str = "") -> dict[str, Any]:
    """One message and what came of it: `{contextId, taskId, state, text}`."""
    options = ["--session", session] if session else []
    done = taskplane("chat", "--url", url, "-m", text, "-o", "json", *options)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def session_of(url: str, *texts: str) -> str:
    """A session with one turn for each text, made without the command."""
    session = uuid4().hex
    for text in texts:
        message = {"messageId": uuid4().hex, "contextId": session, "role": "ROLE_USER", "parts": [{"text": text}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        reply = httpx.post(url, json=body, headers={"A2A-Version": "1.0"}, timeout=PATIENCE)
        assert "result" in reply.json(), reply.text
    return session


def json_of(url: str, *arguments: str) -> Any:
    """What a command that works answers in JSON."""
    done = taskplane(*arguments, "--url", url, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
