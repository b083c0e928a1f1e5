"""The demo agent with a command more: `until FILE` counts until that file is there, however long that takes.

A test decides so when a run ends, on a machine of any speed.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from taskplane.executor.agent import Change, Complete, Text, Turn
from taskplane.executor.agents.demo import Demo

AGENT: Final = "gated=tests.page.gated:Gated"
STEP: Final = 0.03


class Gated(Demo):
    """The demo agent, and `until FILE`."""

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        command, _, file = turn.text.partition(" ")
        return until(Path(file)) if command == "until" else super().run(turn)


async def until(file: Path) -> AsyncIterator[Change]:
    """Counts on, and says all of the numbers once the file is there."""
    words: list[str] = []
    while not file.exists():
        words.append(f"{len(words) + 1} ")
        yield Text(words[-1])
        await asyncio.sleep(STEP)
    yield Complete("".join(words).rstrip() or "0")
