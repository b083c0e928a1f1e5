"""Run the command in processes."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, TextIO, cast
from uuid import uuid4

import httpx
from tests.support.processes import COPIES, Copy

PROGRAM = (sys.executable, "-m", "taskplane.cli")
PATIENCE = 60.0


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without settings of the plane and without colours, and with `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKPLANE_")}
    return {**kept, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **(extra or {})}


def taskplane(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str = "",
    afresh: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Runs one command to its end. `afresh`: as a new process, not a copy of a process that has imported everything."""
    if afresh or not COPIES:
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
    with TemporaryDirectory() as name:
        given, out, err = (Path(name) / file for file in ("stdin", "stdout", "stderr"))
        given.write_text(stdin)
        code = Copy(arguments, environment(env), out, err, stdin=given, folder=cwd).wait(PATIENCE)
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())


class Output:
    """Lines that a process prints, read by a thread at once, so that a full pipe never stops the process."""

    def __init__(self, source: TextIO) -> None:
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._thread = Thread(target=self._drain, args=(source,), daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[str]:
        """Yields the lines not taken yet, until the process has closed its output."""
        while line := self._lines.get():
            yield line
        self._lines.put("")

    def read(self) -> str:
        """Return the lines not taken yet, once the process has closed its output."""
        return "".join(self)

    def _drain(self, source: TextIO) -> None:
        with source:
            for line in source:
                self._lines.put(line)
        self._lines.put("")


@dataclass
class Dev:
    """A running `taskplane dev`. `said` is its output until it was ready, `output` its output after that."""

    process: "subprocess.Popen[str] | Copy"
    said: str
    output: Output

    @property
    def url(self) -> str:
        """The URL of the gateway."""
        return self._found(r"^A2A +(http://[^ ]+?)/ ")

    @property
    def grpc(self) -> str:
        """Address of the gRPC port."""
        return self._found(r"^gRPC +(\S+)")

    def signal(self, number: int) -> None:
        """Sends a signal to the process."""
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Waits for the end of the process. Returns the exit code, and its output on both streams since it was
        ready."""
        rest = self.output.read()
        return self.process.wait(PATIENCE), rest

    def _found(self, pattern: str) -> str:
        match = re.search(pattern, self.said, re.MULTILINE)
        assert match is not None, self.said
        return match.group(1)


@contextmanager
def dev(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None, afresh: bool = False) -> Generator[Dev]:
    """`taskplane dev` on free ports, killed at the end if it still runs. `afresh` as in `taskplane`."""
    started = _new if afresh or not COPIES else _copied
    process, source = started(("dev", "--port", "0", "--grpc-port", "0", *arguments), environment(env), cwd)
    output = Output(source)
    try:
        said = ""
        for line in output:
            said += line
            if line.startswith("ready in "):
                break
        assert "ready in " in said, said
        yield Dev(process, said, output)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)


def _new(arguments: Sequence[str], env: Mapping[str, str], cwd: Path) -> "tuple[subprocess.Popen[str] | Copy, TextIO]":
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        env=env,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    return process, cast("TextIO", process.stdout)


def _copied(
    arguments: Sequence[str], env: Mapping[str, str], cwd: Path
) -> "tuple[subprocess.Popen[str] | Copy, TextIO]":
    reader, writer = Pipe(duplex=False)
    with reader, writer:
        return Copy(arguments, env, writer, folder=cwd), open(os.dup(reader.fileno()))


def chat_once(url: str, text: str, session: str = "") -> dict[str, Any]:
    """Sends one message and returns the result: `{contextId, taskId, state, text}`."""
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
    """The JSON answer of a command, which must succeed."""
    done = taskplane(*arguments, "--url", url, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
