"""Agents of tests that run in processes of their own. The processes import this module; tests exchange files with
them."""

import asyncio
import gc
import json
import math
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from taskplane.agents.agent import (
    AgentCard,
    AgentError,
    ArtifactChunk,
    AskInput,
    Change,
    Complete,
    Policy,
    Say,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

SECRET = "password=hunter2"
_variable: ContextVar[str] = ContextVar("variable", default="")


def write(file: str, text: str = "") -> None:
    Path(file).write_text(text)


def block(file: str) -> None:
    """Blocks its thread until there is a file."""
    while not Path(file).exists():
        time.sleep(0.005)


class Worker:
    """Does the first word of a message; the second word is a file."""

    card = AgentCard(name="worker", version="1")

    def __init__(self) -> None:
        self.turns = 0

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        self.turns += 1
        word, _, file = turn.text.partition(" ")
        match word:
            case "where":
                main = threading.current_thread() is threading.main_thread()
                yield Complete(f"{os.getpid()} {self.turns} {main}")
            case "block":
                yield Say(str(os.getpid()))
                block(file)
                yield Complete("well")
            case "wait":
                yield Say(str(os.getpid()))
                try:
                    await asyncio.Event().wait()
                finally:
                    write(file, f"cancelled: {turn.cancelled.is_set()}")
            case "listen":
                yield Say("ready")
                while not (more := await turn.incoming()):
                    await asyncio.sleep(0.005)
                yield Complete(more[0].parts[0].text)
            case "ask":
                yield AskInput("Which?")
            case "flood":
                for count in range(10_000):
                    write(file, str(count))
                    yield Say(str(count))
            case "variable":
                token = _variable.set("kept")
                yield Say("so far")
                yield Say(_variable.get())
                _variable.reset(token)
            case _:
                said = [message.parts[0].text for message in turn.history]
                yield Complete(f"{turn.text} after {said}, {turn.caller.owner}, {turn.attempt}")


class Plain:
    """The same as a plain generator."""

    card = AgentCard(name="plain", version="1")

    def run(self, turn: Turn) -> Iterator[Change]:
        word, _, file = turn.text.partition(" ")
        if word == "block":
            yield Say(str(os.getpid()))
            block(file)
        elif word == "poll":
            yield Say(str(os.getpid()))
            while not turn.cancelled.is_set():
                time.sleep(0.005)
            Path(file).touch()
        yield Complete("well" if word != "where" else f"{os.getpid()} 1 True")


class Unreadable:
    """Can be pickled, and not be read again."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("no number",)


class Faulty:
    """Makes the fault that a message names."""

    card = AgentCard(name="faulty", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Say(str(os.getpid()))
        match turn.text:
            case "exception":
                raise RuntimeError(SECRET)
            case "exit":
                sys.exit(3)
            case "canceled":
                raise asyncio.CancelledError(SECRET)
            case "heard":
                raise AgentError("The disk is full.")
            case "dict":
                yield {"text": SECRET}  # type: ignore[misc]  # pyright: ignore[reportReturnType]
            case "say":
                yield Say(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            case "unreadable":
                yield Say(Unreadable())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            case "exit the process":
                os._exit(3)
            case _ if turn.text.startswith("block"):
                block(turn.text.partition(" ")[2])
                yield Complete("well")
            case _:
                yield Complete("well")


class Undecided(Worker):
    """Asks for a process itself."""

    def policy(self, turn: Turn) -> Policy:
        return Policy(isolation="process")


class OnceOnly(Worker):
    """Can be made in the executor, and nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        if "taskplane.executor.composition" not in sys.modules:
            raise RuntimeError(SECRET)


class Caller:
    """Makes the calls of a turn, and answers with their results. A message is JSON: entries to append to the
    session."""

    card = AgentCard(name="caller", version="1")

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()

    def policy(self, turn: Turn) -> Policy:
        return self._policy

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        for event in json.loads(turn.text):
            try:
                await turn.session.append(event)
            except ValueError as error:
                yield Say(f"refused: {error}")
        referenced = [
            [task.id, [part.text for artifact in task.artifacts for part in artifact.parts]]
            for task in await turn.referenced()
        ]
        known: dict[str, Any] = {
            "referenced": referenced,
            "events": await turn.session.events(),
            "state": await turn.session.state(),
            "history": [message.parts[0].text for message in turn.history],
        }
        yield ArtifactChunk("made", text=f"by {turn.task_id}")
        yield Complete(json.dumps(known))


class Options:
    """Answers with the options of its turn."""

    card = AgentCard(name="options", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Complete(json.dumps([turn.metadata, [*turn.output_modes], [*turn.extensions]]))


class Values:
    """Yields Python values that are not JSON in every place that takes JSON, and appends one to the session."""

    card = AgentCard(name="values", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        values = {
            "uuid": UUID(int=1),
            "date": date(2026, 1, 2),
            "decimal": Decimal("1.5"),
            "bytes": b"\xff",
            "set": {3},
            "nan": math.nan,
            "text": "a\0\ud83d",
            "large": 2**70,
            "keys": {1: "one"},
        }
        yield ToolCall("1", "f", values)
        yield ToolResult("1", "f", values)
        yield ArtifactChunk("a", data=values, metadata=values)
        try:
            await turn.session.append({"id": "e", "value": UUID(int=1)})
        except ValueError:
            yield Complete("This is no JSON.")


class Maker:
    """Makes an artifact at its end, by plain generators."""

    card = AgentCard(name="maker", version="1")

    def run(self, turn: Turn) -> Iterator[Change]:
        yield Say("one")

    def make_artifact(self, turn: Turn) -> Iterator[Change]:
        said = [message.parts[0].text for message in turn.history]
        yield ArtifactChunk("made", text=f"after {said}", last=True)


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (self._folder,)


def write_raw(content: bytes) -> None:
    """Writes raw bytes to the socket between this process and its executor."""
    (writer,) = (each for each in gc.get_objects() if isinstance(each, asyncio.StreamWriter))
    channel = writer.get_extra_info("socket").fileno()
    while content:
        select.select([], [channel], [])
        content = content[os.write(channel, content) :]


def start_children() -> list[int]:
    """Starts processes of an agent: one in its group, one in a session of its own, and an orphan."""
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    options = "start_new_session=True, stdout=subprocess.DEVNULL"
    parent = f"import subprocess, sys; print(subprocess.Popen(sys.argv[1:], {options}).pid)"
    orphan = subprocess.run([sys.executable, "-c", parent, *sleeping], stdout=subprocess.PIPE, check=True)
    return [
        subprocess.Popen(sleeping).pid,
        subprocess.Popen(sleeping, start_new_session=True).pid,
        int(orphan.stdout.split()[0]),
    ]


class Hostile:
    """Does the first word of a message, to its executor."""

    card = AgentCard(name="hostile", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        word, _, rest = turn.text.partition(" ")
        match word:
            case "raw":
                write_raw(bytes.fromhex(rest))
                await asyncio.Event().wait()
            case "endless":
                write_raw(b"\x10\0\0\0")
                for _ in range(256):
                    write_raw(bytes(1024 * 1024))
                await asyncio.Event().wait()
            case "large":
                yield Text("x" * 256 * 1024 * 1024)
            case "pickle":
                yield ArtifactChunk("a", data=Evil(rest))
            case "print":
                print("a line", flush=True)
                os.write(1, b"\x00\x00\x00\x02[]")
                yield Complete(repr(sys.stdin.read()))
            case "environment":
                yield Complete(json.dumps(dict(os.environ)))
            case "children":
                yield Complete(json.dumps(start_children()))
            case "wait":
                yield Say(json.dumps([os.getpid(), *start_children()]))
                await asyncio.Event().wait()
            case "block":
                yield Say(json.dumps([os.getpid(), *start_children()]))
                # Nothing else in the process runs: it does not even notice that its executor has ended.
                re.match("(a|a)+$", "a" * 60 + "b")
            case "exit":
                yield Say(json.dumps([os.getpid(), *start_children()]))
                os._exit(3)
            case _:
                yield Complete("well")
