"""The demo agent with six commands more: `until FILE` counts until that file is there, however long that takes,
`after FILE COMMAND ARGUMENTS` begins with the command then, `steps FILE` is at its first step until then, `data JSON`
asks by data only, `raise TEXT` crashes, and `usage N` tells N input tokens.

A test decides so when a run ends or begins, on a machine of any speed.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taskplane.executor.agent import AskInput, Change, Complete, Text, Turn, Usage, Working
from taskplane.executor.agents.demo import COMMANDS, Demo
from taskplane.executor.changes import data_message

AGENT: Final = "gated=tests.page.gated:Gated"
STEP: Final = 0.03


@dataclass(frozen=True)
class Gate:
    """A file that a run waits for. As text it is the message that begins such a run."""

    file: Path

    def __str__(self) -> str:
        return f"until {self.file}"

    def open(self) -> None:
        """Lets the run end."""
        self.file.touch()

    @property
    def is_open(self) -> bool:
        return self.file.exists()


class Gated(Demo):
    """The demo agent with the commands of this module."""

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        command, _, rest = turn.text.partition(" ")
        if command == "until":
            return until(Gate(Path(rest)))
        if command == "steps":
            return steps(Gate(Path(rest)))
        if command == "usage":
            return using(int(rest))
        if command == "raise":
            raise RuntimeError(rest)
        if command == "data":
            return asking(json.loads(rest))
        if command == "after":
            file, name, arguments = rest.split(" ", 2)
            return after(Gate(Path(file)), COMMANDS[name].run(name, arguments))
        return super().run(turn)


async def using(tokens: int) -> AsyncIterator[Change]:
    """Tells its figures, and ends."""
    yield Usage({"input_tokens": tokens})
    yield Complete("done")


async def asking(data: Any) -> AsyncIterator[Change]:
    """Asks by a message that is data only."""
    yield AskInput(data_message(data))


async def until(gate: Gate) -> AsyncIterator[Change]:
    """Counts on, and says all of the numbers once the gate is open."""
    words: list[str] = []
    while not gate.is_open:
        words.append(f"{len(words) + 1} ")
        yield Text(words[-1])
        await asyncio.sleep(STEP)
    yield Complete("".join(words).rstrip() or "0")


async def steps(gate: Gate) -> AsyncIterator[Change]:
    """Tells its progress, which stands until the gate is open."""
    yield Working("Step 1 of 2")
    while not gate.is_open:
        await asyncio.sleep(STEP)
    yield Complete("Both steps are done.")


async def after(gate: Gate, then: AsyncIterator[Change]) -> AsyncIterator[Change]:
    """Says that it is ready, and goes on with something else once the gate is open."""
    yield Text("Ready. ")
    while not gate.is_open:
        await asyncio.sleep(STEP)
    async for change in then:
        yield change
